//go:build linux

package clients

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/internal/engines"
)

// answer is what curl was answered.
type answer struct {
	*http.Response
	body     string
	connects int   // how many connections it took
	uploaded int64 // bytes of the request's body that were sent
}

// curl sends the requests that args say in one run, one after the other.
func curl(t *testing.T, args ...string) (answers []answer) {
	t.Helper()
	stdout, stderr := run(t, engines.Curl(t), append([]string{"-q", "--noproxy", "*", "--silent", "--show-error", "--max-time", "120",
		"--include", "--raw", "--write-out", "%{stderr}%{num_connects} %{size_upload}\n"}, args...)...)
	r := bufio.NewReader(strings.NewReader(stdout))
	for line := range strings.Lines(stderr) {
		var a answer
		var err error
		for a.Response == nil || a.StatusCode < 200 {
			if a.Response, err = http.ReadResponse(r, nil); err != nil {
				t.Fatalf("%v: %s", err, stdout)
			}
		}
		body, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatalf("%v: %s", err, stdout)
		}
		a.body = string(body)
		connects, uploaded, _ := strings.Cut(strings.TrimSpace(line), " ")
		if a.connects, err = strconv.Atoi(connects); err != nil {
			t.Fatal(stderr)
		}
		if a.uploaded, err = strconv.ParseInt(uploaded, 10, 64); err != nil {
			t.Fatal(stderr)
		}
		answers = append(answers, a)
	}
	return answers
}

// accepted is an error unless a is what the handler answered, with so much left.
func accepted(t *testing.T, a answer, name string, left int) {
	t.Helper()
	want := `"` + name + `";r=` + strconv.Itoa(left) + ";t="
	fields := a.Header.Values("RateLimit")
	if a.StatusCode != 200 || a.body != "served\n" || len(fields) != 1 || !strings.HasPrefix(fields[0], want) ||
		len(a.Header.Values("RateLimit-Policy")) != 1 || a.Header.Get("Retry-After") != "" {
		t.Errorf("%d %q %v, want %s", a.StatusCode, a.body, a.Header, want)
	}
}

// refused is an error unless a is a refusal with all that belongs to it. It answers what Retry-After says.
func refused(t *testing.T, a answer, name string) time.Duration {
	t.Helper()
	var problem struct {
		Type, Title string
		Status      int
		Violated    []string `json:"violated-policies"`
	}
	if err := json.Unmarshal([]byte(a.body), &problem); err != nil || problem.Status != 429 || problem.Type == "" || problem.Title == "" ||
		!slices.Equal(problem.Violated, []string{name}) {
		t.Errorf("%v: %s", err, a.body)
	}
	after, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if a.StatusCode != 429 || err != nil || after < 1 || a.Header.Get("Content-Type") != "application/problem+json" ||
		!strings.HasPrefix(a.Header.Get("RateLimit"), `"`+name+`";r=0;t=`) {
		t.Fatal(a.StatusCode, a.Header)
	}
	return time.Duration(after) * time.Second
}

var served = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		_, _ = io.WriteString(w, "served\n")
	}
})

// What is left counts down, then comes the refusal. Who waits Retry-After is admitted; a second less is too early.
func TestCurl(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]ration.Limit{
		"bucket":  ration.TokenBucket{Burst: 3, Refill: ration.PerMinute(7)},
		"sliding": ration.SlidingWindow{Limit: 3, Window: 90_500 * time.Millisecond},
		"fixed":   ration.FixedWindow{Limit: 3, Window: time.Minute},
		"daily":   ration.Budget{Limit: 3, Period: ration.Day, Zone: "Europe/Berlin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			s, _ := serve(t, guard(t, newLimiter(t, c), httplimit.Policy{Limit: ration.Rule{Name: name, Limit: limit}, Key: httplimit.ByIP(nil)})(served))
			answers, connects := curl(t, s.URL, s.URL, s.URL, s.URL), 0
			if len(answers) != 4 {
				t.Fatal(answers)
			}
			for i, a := range answers[:3] {
				accepted(t, a, name, 2-i)
			}
			after := refused(t, answers[3], name)
			c.Advance(after - time.Second)
			early := curl(t, s.URL)[0]
			if again := refused(t, early, name); again != time.Second {
				t.Errorf("after all but a second of %v it says %v", after, again)
			}
			c.Advance(time.Second)
			if a := curl(t, s.URL)[0]; a.StatusCode != 200 {
				t.Errorf("after %v: %d %s", after, a.StatusCode, a.body)
			}
			for _, a := range answers {
				connects += a.connects
			}
			if connects != 1 {
				t.Errorf("%d connections for requests one after the other", connects)
			}
		})
	}
}

// curl itself waits Retry-After seconds, and is admitted at the first try.
func TestCurlRetries(t *testing.T) {
	t.Parallel()
	c := newClock()
	h := guard(t, newLimiter(t, c), httplimit.Policy{Key: httplimit.ByIP(nil),
		Limit: ration.Rule{Name: "second", Limit: ration.SlidingWindow{Limit: 1, Window: time.Second}}})(served)
	s, answers := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &statusWriter{ResponseWriter: w}
		h.ServeHTTP(seen, r)
		if seen.status == http.StatusTooManyRequests {
			c.Run() // from before the refusal arrives
		}
	}))
	run(t, engines.Curl(t), "-q", "--noproxy", "*", "--silent", "--show-error", "--fail", "--max-time", "120", "--retry", "3", s.URL, s.URL)
	s.Close()
	if answers.status[200] != 2 || answers.status[429] != 1 {
		t.Error(answers.status)
	}
}

// A body that is refused does not travel.
func TestCurlUploads(t *testing.T) {
	t.Parallel()
	const size = 4 << 20 // curl asks before it sends so much
	file := filepath.Join(t.TempDir(), "upload")
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := serve(t, guard(t, newLimiter(t, newClock()), httplimit.Policy{Key: httplimit.ByIP(nil),
		Limit: ration.Rule{Name: "hourly", Limit: ration.SlidingWindow{Limit: 1, Window: time.Hour}}})(served))
	upload := []string{"--expect100-timeout", "120", "--data-binary", "@" + file, s.URL}
	a := curl(t, upload...)[0]
	accepted(t, a, "hourly", 0)
	if a.uploaded != size {
		t.Error(a.uploaded)
	}
	a = curl(t, upload...)[0]
	if after := refused(t, a, "hourly"); after != time.Hour || a.uploaded != 0 {
		t.Error(after, a.uploaded)
	}
}
