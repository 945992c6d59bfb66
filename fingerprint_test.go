package ration_test

import (
	"errors"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func TestFingerprint(t *testing.T) {
	t.Parallel()
	limiter := func(secret string) *ration.Limiter {
		opts := &ration.Options{}
		if secret != "" {
			opts.KeySecret = []byte(secret)
		}
		l := ration.New(memstore.New(nil), opts)
		t.Cleanup(func() { l.Close() })
		return l
	}
	plain, one, two := limiter(""), limiter("a secret of sixteen"), limiter("another of as many")
	seen := map[[16]byte]string{}
	for name, key := range map[string]ration.Key{
		"a": ration.KeyOf("a"), "ab": ration.KeyOf("ab"), "a, b": ration.KeyOf("a", "b"), "global": ration.Global,
		"b in a": ration.KeyOf("b").In("a"), "in ab": ration.KeyOf("c").In("ab"),
	} {
		for _, l := range []*ration.Limiter{plain, one, two} {
			f, err := l.Fingerprint(key)
			if err != nil || seen[f] != "" {
				t.Errorf("%s: %x, which is also %s (%v)", name, f, seen[f], err)
			}
			seen[f] = name
		}
	}
	again, err := limiter("a secret of sixteen").Fingerprint(ration.KeyOf("a"))
	if err != nil || seen[again] != "a" {
		t.Errorf("another Limiter with the same secret has another fingerprint (%v)", err)
	}
	if _, err := one.Fingerprint(ration.Key{}); !errors.Is(err, ration.ErrInvalidKey) {
		t.Errorf("the zero key: %v", err)
	}
}
