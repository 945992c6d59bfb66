package access_test

import (
	"fmt"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/server/access"
)

// BenchmarkIdentify is what it costs to know a caller, and to refuse one: before its address is told to wait, and after.
func BenchmarkIdentify(b *testing.B) {
	limit, err := ration.ParseLimit("bucket 10/1m burst 30")
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 100, 1000} {
		var tokens []access.Token
		secret := ""
		for i := range n {
			one, token := made(b, fmt.Sprintf("t%d", i), "take", "")
			secret, tokens = one, append(tokens, token)
		}
		g := newGuard(b, &access.Options{Tokens: tokens, FailedLimit: limit})
		wrong := access.NewToken()
		b.Run(fmt.Sprintf("known/tokens=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Identify(secret, "192.0.2.1"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("refused/tokens=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Identify(wrong, "192.0.2.1"); err == nil {
					b.Fatal("a guess was right")
				}
			}
		})
	}
}
