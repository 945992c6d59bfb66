package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

// What a guard adds to a request, without the network.
func BenchmarkGuard(b *testing.B) {
	many := ration.TokenBucket{Burst: 1 << 40, Refill: ration.PerSecond(1000)}
	one := httplimit.Policy{Limit: ration.Rule{Name: "one", Limit: many}, Key: byAddr}
	two := httplimit.Policy{Limit: ration.Rule{Name: "two", Limit: many}, Key: byAddr}
	counted := httplimit.Policy{Limit: ration.Rule{Name: "counted", Limit: many}, Key: byAddr, Count: func(int, http.Header) bool { return true }}
	full := httplimit.Policy{Limit: sliding("full", 0, time.Minute), Key: byAddr}
	for _, c := range []struct {
		name     string
		policies []httplimit.Policy
	}{{"none", nil}, {"one", []httplimit.Policy{one}}, {"two", []httplimit.Policy{one, two}}, {"counted", []httplimit.Policy{counted}}, {"refused", []httplimit.Policy{full}}} {
		b.Run(c.name, func(b *testing.B) {
			l := ration.New(memstore.New(nil), nil)
			defer l.Close()
			h := guard(b, l, nil, c.policies...)(handler(func(http.ResponseWriter, *http.Request) {}))
			r := httptest.NewRequest("GET", "/", nil)
			w := &discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
