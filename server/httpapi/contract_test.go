package httpapi_test

import (
	"strings"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/client"
	"github.com/ration-go/ration/internal/holdcontract"
	"github.com/ration-go/ration/internal/proxy"
	"github.com/ration-go/ration/memstore"
)

// TestHoldContract counts requests between package client and a server, and loses answers.
func TestHoldContract(t *testing.T) {
	t.Parallel()
	url := serve(t, memstore.New(nil)).server.URL
	p := proxy.New(t, strings.TrimPrefix(url, "http://"))
	limiter := func(url string) *ration.Limiter {
		c, err := client.New(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		l := ration.New(c, nil)
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	holdcontract.Run(t, holdcontract.Subject{
		Limiter: limiter("http://" + p.Addr),
		Another: limiter(url),
		Trips:   p.Trips.Load,
		Lose:    p.Lose,
		Lost:    p.Lost.Load,
	})
}
