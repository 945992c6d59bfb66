//go:build linux

package server_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ration-go/ration/internal/engines"
)

// A Redis that is killed is down in the metrics, and up again when it is back, and both are counted.
func TestOutageIsInTheMetrics(t *testing.T) {
	t.Parallel()
	redis := engines.Redis(t, nil)
	p := serve(t, t.TempDir(), "--store", "redis://"+redis.Addr, "--outage-probe", "50ms", "--timeout", "500ms")
	until := func(up, downs, ups float64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; {
			call(t, http.MethodPost, p.url+"/v1/take", `{"key": "a", "limit": "fixed 9/1h"}`)
			all := scrape(t, p.url+"/metrics")
			changes := all["ration_store_changes_total"]
			got := []float64{value(all["ration_store_up"]), value(changes, "state", "down"), value(changes, "state", "up")}
			if got[0] == up && got[1] == downs && got[2] == ups {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("up, changes to down and to up are %v, not %v; stderr: %s", got, []float64{up, downs, ups}, p.stderr)
			}
		}
	}
	until(1, 0, 0)
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	until(0, 1, 0)
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	until(1, 1, 1)
}
