//go:build linux

package pgstore_test

import (
	"net/url"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/internal/outagecontract"
)

// TestOutage stops, kills, cuts off and slows down a server of its own.
func TestOutage(t *testing.T) {
	t.Parallel()
	srv := engines.Postgres(t, &engines.PostgresOptions{Version: 15})
	schema := newSchema()
	openIn(t, newPool(t, srv.URL, nil), schema)
	outagecontract.Run(t, outagecontract.Subject{
		Server: srv.Addr,
		Open: func(t testing.TB, addr string, opts *ration.Options) *ration.Limiter {
			u, err := url.Parse(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			u.Host = addr
			l := ration.New(openIn(t, newPool(t, u.String(), nil), schema), opts)
			t.Cleanup(func() { l.Close() })
			return l
		},
		Faults: map[string]func() func(){
			"stopped": func() func() {
				srv.Pause()
				return srv.Resume
			},
			"killed": func() func() {
				if err := srv.Kill(); err != nil {
					t.Error(err)
				}
				return func() {
					if err := srv.Restart(); err != nil {
						t.Error(err)
					}
				}
			},
		},
	})
}
