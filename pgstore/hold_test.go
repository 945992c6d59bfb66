//go:build linux

package pgstore_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/holdcontract"
	"github.com/ration-go/ration/internal/proxy"
)

// through is a proxy in front of the server at text, and the URL that leads there.
func through(t testing.TB, text string) (*proxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := proxy.New(t, u.Host)
	u.Host = p.Addr
	return p, u.String()
}

// TestHoldContract counts round trips between a pool and a server, and loses answers.
func TestHoldContract(t *testing.T) {
	t.Parallel()
	for _, version := range []int{15, 18} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			direct := server(t, version).URL
			p, url := through(t, direct)
			schema := newSchema()
			holdcontract.Run(t, holdcontract.Subject{
				Limiter: ration.New(openIn(t, newPool(t, url, nil), schema), nil),
				Another: ration.New(openIn(t, newPool(t, direct, nil), schema), nil),
				Trips:   p.Trips.Load,
				Lose:    p.Lose,
				Lost:    p.Lost.Load,
			})
		})
	}
}
