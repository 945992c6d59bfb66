package redisstore_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/internal/outagecontract"
	"github.com/ration-go/ration/redisstore"
)

// TestOutage stops, kills, cuts off and slows down a server of its own.
func TestOutage(t *testing.T) {
	t.Parallel()
	srv := engines.Redis(t, &engines.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	outagecontract.Run(t, outagecontract.Subject{
		Server: srv.Addr,
		Open: func(t testing.TB, addr string, opts *ration.Options) *ration.Limiter {
			c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			l := ration.New(open(t, c, &redisstore.Options{Prefix: newPrefix()}), opts)
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
