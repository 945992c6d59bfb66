package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A server that is killed under load has kept every charge that it acknowledged, and has made none twice. Each call charges,
// all or none, a key of its own and a key of its round: so the second is the number of the first, whatever was in flight.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	const workers, rounds, acknowledgements = 8, 3, 300
	dir := t.TempDir()
	p := serve(t, dir)
	for round := range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		var acked sync.Map // number of a call: true if it was acknowledged
		var count, next atomic.Int64
		var wg sync.WaitGroup
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
		for range workers {
			wg.Go(func() {
				for {
					n := next.Add(1)
					acked.Store(n, false)
					status, answer, err := tryPost(ctx, client, p.url+"/v1/take-all", charges(round, n))
					if err != nil {
						return // killed; whether it was charged is unknown
					}
					if status != 200 || answer["allowed"] != true {
						t.Errorf("call %d got %d %v", n, status, answer)
						return
					}
					acked.Store(n, true)
					if count.Add(1) == acknowledgements {
						p.signal(syscall.SIGKILL)
					}
				}
			})
		}
		wg.Wait()
		cancel()
		client.CloseIdleConnections()
		if code, by := p.end(); by != syscall.SIGKILL {
			t.Fatalf("the server ended with %d, by signal %v\n%s", code, by, p.stderr)
		}

		p = serve(t, dir)
		var kept, unknown int64
		acked.Range(func(n, acknowledged any) bool {
			used := usedOf(t, p.url, fmt.Sprintf(`{"key": ["call", "%d", "%d"], "limit": "fixed 1000/24h", "cost": 0}`, round, n))
			if used > 1 || acknowledged.(bool) && used != 1 {
				t.Errorf("round %d, call %d: acknowledged %v, charged %d times", round, n, acknowledged, used)
			}
			if !acknowledged.(bool) {
				unknown++
			}
			kept += used
			return true
		})
		all := usedOf(t, p.url, fmt.Sprintf(`{"key": ["round", "%d"], "limit": "budget 1000000/year", "cost": 0}`, round))
		if all != kept {
			t.Errorf("round %d: %d of the calls are kept by their own keys, %d by the common one", round, kept, all)
		}
		t.Logf("round %d: %d acknowledged, %d unknown, %d kept", round, count.Load(), unknown, kept)
	}
}

func charges(round int, n int64) string {
	return fmt.Sprintf(`{"charges": [{"key": ["call", "%[1]d", "%[2]d"], "limit": "fixed 1000/24h"}, {"key": ["round", "%[1]d"], "limit": "budget 1000000/year"}]}`, round, n)
}

func usedOf(t testing.TB, url, body string) int64 {
	t.Helper()
	status, answer := post(t, url+"/v1/peek", body)
	number, ok := answer["used"].(json.Number)
	if status != 200 || !ok {
		t.Fatalf("%s got %d %v", body, status, answer)
	}
	used, err := strconv.ParseInt(number.String(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return used
}
