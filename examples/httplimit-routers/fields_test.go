package routers

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
)

// What guards write is read by a library for structured fields: lists of strings, with the parameters of the drafts.
func TestStructuredFields(t *testing.T) {
	t.Parallel()
	limits := map[string]ration.Limit{
		"bucket":       ration.TokenBucket{Burst: 3, Refill: ration.PerMinute(7)},
		"sliding.2":    ration.SlidingWindow{Limit: 2, Window: 1500 * time.Millisecond},
		"fixed_window": ration.FixedWindow{Limit: ration.MaxCount, Window: 87660 * time.Hour},
		"daily-budget": ration.Budget{Limit: 5, Period: ration.Day},
		"month":        ration.Budget{Limit: 5, Period: ration.Month, Zone: "Europe/Berlin"},
		"off":          ration.SlidingWindow{Limit: 0, Window: time.Minute},
		"slots":        ration.Concurrency{Limit: 1, Lease: time.Minute},
	}
	var all []httplimit.Policy
	for name, limit := range limits {
		all = append(all, httplimit.Policy{Limit: ration.Rule{Name: name, Limit: limit}, Key: httplimit.ByIP(nil)})
	}
	hello := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, dialect := range []httplimit.Headers{httplimit.Draft11, httplimit.Draft12} {
		l := limiter(t)
		guard := func(ps ...httplimit.Policy) middleware {
			g, err := httplimit.New(l, ps, &httplimit.Options{Headers: dialect})
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		var handlers []http.Handler
		for _, p := range all {
			handlers = append(handlers, guard(p)(hello))
		}
		handlers = append(handlers, guard(all...)(hello), guard(all[:3]...)(guard(all[3:]...)(hello)))
		for i, h := range handlers {
			for range 6 {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				left, end := "r", "t"
				if dialect == httplimit.Draft12 {
					left, end = "a", "w"
				}
				want := []string{all[min(i, len(all)-1)].Limit.(ration.Rule).Name}
				if i >= len(all) {
					want = slices.Clone(names(t, w.Header(), "RateLimit-Policy"))
				}
				slices.Sort(want)
				if got := names(t, w.Header(), "RateLimit"); !slices.Equal(sorted(got), want) {
					t.Errorf("%q, want %q", got, want)
				}
				for _, it := range members(t, w.Header(), "RateLimit") {
					integer(t, it, left, 0, true)
					integer(t, it, end, 1, false)
					integer(t, it, "c", 0, dialect == httplimit.Draft12)
				}
				for _, it := range members(t, w.Header(), "RateLimit-Policy") {
					integer(t, it, "q", 0, true)
					integer(t, it, "w", 1, false)
					if unit, ok := it.Params.Get("qu"); ok && unit != "concurrent-requests" {
						t.Error(unit)
					}
				}
				if after := w.Header().Get("Retry-After"); after != "" {
					if n, err := strconv.Atoi(after); err != nil || n < 1 || w.Code != 429 {
						t.Error(w.Code, after)
					}
				}
			}
		}
	}
}

func members(t *testing.T, h http.Header, field string) (items []httpsfv.Item) {
	t.Helper()
	list, err := httpsfv.UnmarshalList(h.Values(field))
	if err != nil || len(h.Values(field)) != 1 || len(list) == 0 {
		t.Fatalf("%s: %q: %v", field, h.Values(field), err)
	}
	for _, member := range list {
		it, ok := member.(httpsfv.Item)
		if _, text := it.Value.(string); !ok || !text {
			t.Fatalf("%s has %#v", field, member)
		}
		items = append(items, it)
	}
	return items
}

func names(t *testing.T, h http.Header, field string) (names []string) {
	t.Helper()
	for _, it := range members(t, h, field) {
		names = append(names, it.Value.(string))
	}
	return names
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// integer checks a parameter: at least so great and, if it must be, there.
func integer(t *testing.T, it httpsfv.Item, name string, least int64, must bool) {
	t.Helper()
	v, ok := it.Params.Get(name)
	if n, is := v.(int64); ok && (!is || n < least) || !ok && must {
		t.Errorf("%v: %s is %v", it.Value, name, v)
	}
}
