package envoyrls_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ration-go/ration/server/envoyrls"
)

// TestTextThatIsNotUTF8: bytes of a header must not get a client past its limit.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	e := newEnv(t, limited("{unit: hour, requests_per_unit: 2}"), nil)
	sent := func(old, new string) []byte {
		r := request("d", "k=name")
		r.HitsAddend = 1
		data, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Replace(data, []byte(old), []byte(new), 1)
	}
	for i, one := range []struct {
		value, read string
	}{{"name", "name"}, {"na\xffe", "na\uFFFDffe"}, {"\xc3\xa9\xc3e", "é\uFFFDc3e"}, {"\x80\x81\x82\x83", "\uFFFD80\uFFFD81\uFFFD82\uFFFD83"}} {
		r := new(rlsv3.RateLimitRequest)
		if err := envoyrls.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(sent("name", one.value))}, r); err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		if got := r.Descriptors[0].Entries[0].Value; got != one.read || r.Domain != "d" || r.HitsAddend != 1 || r.Descriptors[0].Entries[0].Key != "k" {
			t.Errorf("%d: %v", i, r)
		}
		codes := ""
		for range 3 {
			a, err := e.service.ShouldRateLimit(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			codes += fmt.Sprint(a.OverallCode, " ")
		}
		if codes != "OK OK OVER_LIMIT " {
			t.Errorf("%d: %s", i, codes)
		}
	}
	// What is broken otherwise stays an error.
	for _, data := range [][]byte{sent("\x12", "\x13"), sent("name", "na\xffe")[:8], {0xff}, sent("\x0a\x01d", "\x0a\x7fd")} {
		if err := envoyrls.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, new(rlsv3.RateLimitRequest)); err == nil {
			t.Errorf("%q is read", data)
		}
	}
}

// FuzzCodec: whatever comes is an error, or a request that can be encoded.
func FuzzCodec(f *testing.F) {
	data, err := proto.Marshal(request("d", "k=name", "a=b c=d"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(bytes.Replace(data, []byte("name"), []byte("n\xff\xfee"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := new(rlsv3.RateLimitRequest)
		if envoyrls.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, r) != nil {
			return
		}
		again := new(rlsv3.RateLimitRequest)
		if data, err := proto.Marshal(r); err != nil || proto.Unmarshal(data, again) != nil || !proto.Equal(r, again) {
			t.Errorf("%v, %v", r, err)
		}
	})
}
