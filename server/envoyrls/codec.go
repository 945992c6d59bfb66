package envoyrls

import (
	"encoding/hex"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// Codec is grpc's for Protocol Buffers, for grpc.ForceServerCodecV2, except that requests to this service may hold text that is
// not UTF-8. Envoy sends values of headers as they came; without this, a client of Envoy gets an error in place of a decision by a
// single byte, and with that past the limit wherever Envoy lets requests through that could not be decided.
//
// A byte that is none of UTF-8 becomes U+FFFD and its two hexadecimal digits, so different values stay different.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(grpcproto.Name)} }

type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	r, ok := v.(*rlsv3.RateLimitRequest)
	if !ok {
		return err
	}
	mended, ok := texts.mend(nil, data.Materialize())
	if !ok {
		return err
	}
	return proto.Unmarshal(mended, r)
}

// fields are those of a message that are text, and those that are messages with such.
type fields map[protowire.Number]fields

// texts are the domain, and the key and value of each entry of each descriptor.
var texts = fields{1: nil, 2: {1: {1: nil, 2: nil}}}

// mend appends the message b to out, with its texts in UTF-8; false if b is no message.
func (f fields) mend(out, b []byte) ([]byte, bool) {
	for len(b) > 0 {
		number, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, b[tag:])
		if size < 0 {
			return nil, false
		}
		inner, known := f[number]
		if !known || kind != protowire.BytesType {
			out = append(out, b[:tag+size]...)
			b = b[tag+size:]
			continue
		}
		value, _ := protowire.ConsumeBytes(b[tag:])
		if inner == nil {
			value = valid(value)
		} else {
			var ok bool
			if value, ok = inner.mend(nil, value); !ok {
				return nil, false
			}
		}
		out = protowire.AppendBytes(protowire.AppendTag(out, number, kind), value)
		b = b[tag+size:]
	}
	return out, true
}

// valid is text in UTF-8.
func valid(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			out = hex.AppendEncode(utf8.AppendRune(out, utf8.RuneError), text[:1])
		} else {
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}
