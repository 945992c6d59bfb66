package grpcapi

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/strictjson"
	"github.com/ration-go/ration/internal/wire"
	rationv1 "github.com/ration-go/ration/server/grpcapi/ration/v1"
	"github.com/ration-go/ration/server/internal/verbs"
)

// message is a generated one.
type message interface{ ProtoReflect() protoreflect.Message }

// known is an error if m has fields that this version does not know: they could mean another decision.
func known(m message) error {
	if len(m.ProtoReflect().GetUnknown()) == 0 {
		return nil
	}
	return verbs.Problem(wire.Code(strictjson.UnknownField), "the message has a field that this server does not know; it may be older than the caller")
}

// keyOf is the Key that k means.
func keyOf(k *rationv1.Key) (ration.Key, error) {
	key, err := readKey(k)
	if err != nil {
		return key, verbs.Within("/key", err)
	}
	return key.In(k.Group), nil
}

func readKey(k *rationv1.Key) (key ration.Key, err error) {
	if k == nil {
		return key, verbs.Problem(codeMissing, noKey)
	}
	if err := known(k); err != nil {
		return key, err
	}
	switch text, raw := len(k.Parts) > 0, len(k.RawParts) > 0; {
	case text && raw, text && k.Global, raw && k.Global:
		return key, verbs.Problem(wire.CodeInvalidKey, "give only one of parts, raw_parts and global")
	case text:
		return ration.KeyOf(k.Parts[0], k.Parts[1:]...), nil
	case raw:
		parts := make([]string, len(k.RawParts))
		for i, part := range k.RawParts {
			parts[i] = string(part)
		}
		return ration.KeyOf(parts[0], parts[1:]...), nil
	case k.Global:
		return ration.Global, nil
	}
	return key, verbs.Problem(codeMissing, noKey)
}

const noKey = "no key; give parts, raw_parts, or global for the count that everybody shares"
