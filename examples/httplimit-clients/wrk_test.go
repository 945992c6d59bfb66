//go:build linux

package clients

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/internal/engines"
)

var (
	wrkRequests = regexp.MustCompile(`(?m)^ *(\d+) requests in `)
	wrkFailures = regexp.MustCompile(`(?m)^ *Non-2xx or 3xx responses: (\d+)$`)
)

func number(t *testing.T, form *regexp.Regexp, report string) int {
	t.Helper()
	found := form.FindStringSubmatch(report)
	if found == nil {
		t.Fatalf("no %v in: %s", form, report)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// As much load as wrk makes from many connections: the limit is passed by no request, and refusals keep the connections.
func TestWrk(t *testing.T) {
	t.Parallel()
	wrk := engines.Wrk(t)
	hourly := ration.Rule{Name: "hourly", Limit: ration.SlidingWindow{Limit: 100, Window: time.Hour}}
	once := func(int, http.Header) bool { return true }
	for name, policy := range map[string]httplimit.Policy{
		"charged at once":    {Limit: hourly, Key: httplimit.ByIP(nil)},
		"charged by outcome": {Limit: hourly, Key: httplimit.ByIP(nil), Count: once},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const admitted, connections = 100, 16
			s, answers := serve(t, guard(t, newLimiter(t, newClock()), policy)(served))
			runs, requests, failures := 0, 0, 0
			for begin := time.Now(); requests <= admitted && time.Since(begin) < patience; runs++ {
				report, _ := run(t, wrk, "--threads", "2", "--connections", strconv.Itoa(connections), "--duration", "1s", "--timeout", "120s", s.URL)
				requests += number(t, wrkRequests, report)
				if requests > admitted {
					failures += number(t, wrkFailures, report)
				}
				if strings.Contains(report, "Socket errors") {
					t.Error(report)
				}
			}
			s.Close()
			// What is under way when its time is over, wrk does not count.
			pending := runs * connections
			if ok, no := answers.status[200], answers.status[429]; ok != admitted || no < failures || no > failures+pending || len(answers.status) != 2 {
				t.Errorf("answered %v, wrk had %d failures", answers.status, failures)
			}
			if ok := requests - failures; ok > admitted || ok < admitted-(pending-connections) {
				t.Errorf("wrk had %d answers, %d of them failures", requests, failures)
			}
			// wrk connects once more in each run, to try the address.
			if most := runs * (connections + 1); answers.connections > most {
				t.Errorf("%d connections for %d requests, want %d", answers.connections, requests, most)
			}
			t.Logf("%d requests", requests)
		})
	}
}
