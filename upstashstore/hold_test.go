package upstashstore_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/internal/holdcontract"
	"github.com/ration-go/ration/internal/proxy"
	"github.com/ration-go/ration/upstashstore"
)

// TestHoldContract counts requests between a client and the gateway, and loses answers.
func TestHoldContract(t *testing.T) {
	t.Parallel()
	g := newGateway(t, engines.Redis(t, nil).Addr)
	p := proxy.New(t, strings.TrimPrefix(g.URL, "http://"))
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	open := func(url string) *ration.Limiter {
		s := upstashstore.New(&upstashstore.Options{URL: url, Token: token, SweepEvery: -1, HTTPClient: &http.Client{Transport: transport}})
		l := ration.New(s, nil)
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	holdcontract.Run(t, holdcontract.Subject{
		Limiter: open("http://" + p.Addr),
		Another: open(g.URL),
		Trips:   p.Trips.Load,
		ByID:    2, // the keys of the reservation are read first
		Lose:    p.Lose,
		Lost:    p.Lost.Load,
	})
}
