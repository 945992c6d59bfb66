package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/httplimit"
	"github.com/ration-go/ration/memstore"
)

var api = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })

// ask is a request as a server gets it.
func ask(h http.Handler, edit func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/api/hello", nil)
	edit(r)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func ExampleNew() {
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()

	perUser := ration.Rule{Name: "per-user", Limit: ration.SlidingWindow{Limit: 2, Window: time.Minute}}
	together := ration.Rule{Name: "together", Limit: ration.SlidingWindow{Limit: 1000, Window: time.Minute}}
	everybody := func(*http.Request) string { return "everybody" }

	guard, err := httplimit.New(limiter, []httplimit.Policy{
		{Limit: perUser, Key: httplimit.ByHeader("X-Api-Key")},
		{Limit: together, Key: everybody},
	}, nil)
	if err != nil {
		log.Fatal(err) // an invalid limit, a name used twice, a missing Key
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", guard(api))

	for range 3 {
		w := ask(mux, func(r *http.Request) { r.Header.Set("X-Api-Key", "ada") })
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 200 "per-user";r=1;t=60, "together";r=999;t=60
	// 200 "per-user";r=0;t=60, "together";r=998;t=60
	// 429 "per-user";r=0;t=60, "together";r=998;t=60
}

func ExampleByIP() {
	key := httplimit.ByIP(&httplimit.IPOptions{
		Trusted:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, // our load balancers
		IPv6Bits: 56,                                                  // default 64
	})

	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.7:5123"
	r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.9") // the left one is the client's own claim
	fmt.Println(key(r))
	r.RemoteAddr = "[2001:db8:1:2ff::1]:5123" // not a load balancer
	fmt.Println(key(r))
	// Output:
	// 203.0.113.9
	// 2001:db8:1:200::/56
}

func ExampleAll() {
	perUserAndMethod := httplimit.All(
		httplimit.ByUser(),
		func(r *http.Request) string { return r.Method },
	)
	r := httptest.NewRequest("GET", "/", nil)
	fmt.Printf("%q\n", perUserAndMethod(r)) // no user: no identity
	// Output: ""
}

// A plan is looked up with each request. Usage stays when the plan changes.
func ExamplePolicy_plan() {
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()
	plans := map[string]int64{"free-tenant": 1, "paying-tenant": 1000}
	tenant := httplimit.ByHeader("X-Tenant")

	plan := httplimit.Policy{
		Key: tenant,
		For: func(r *http.Request) (ration.Limit, error) {
			n, ok := plans[tenant(r)]
			if !ok {
				return nil, errors.New("the plan of this tenant is not known")
			}
			return ration.Rule{Name: "plan", Limit: ration.Budget{Limit: n, Period: ration.Month}}, nil
		},
	}

	guard, err := httplimit.New(limiter, []httplimit.Policy{plan}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"free-tenant", "free-tenant", "paying-tenant", "somebody"} {
		w := ask(guard(api), func(r *http.Request) { r.Header.Set("X-Tenant", name) })
		fmt.Println(name, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// free-tenant 200 "plan";q=1
	// free-tenant 429 "plan";q=1
	// paying-tenant 200 "plan";q=1000
	// somebody 503
}

// Only wrong passwords count, and a hundred at once cannot slip past.
func ExamplePolicy_count() {
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()

	failures := httplimit.Policy{
		Limit: ration.Rule{Name: "failed-logins", Limit: ration.SlidingWindow{Limit: 2, Window: time.Hour}},
		Key:   httplimit.ByIP(nil),
		Count: func(status int, _ http.Header) bool { return status == http.StatusUnauthorized },
	}

	guard, err := httplimit.New(limiter, []httplimit.Policy{failures}, nil)
	if err != nil {
		log.Fatal(err)
	}
	login := guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"wrong", "right", "right", "wrong", "right"} {
		fmt.Println(password, ask(login, func(r *http.Request) { r.Header.Set("Password", password) }).Code)
	}
	// Output:
	// wrong 401
	// right 200
	// right 200
	// wrong 401
	// right 429
}

func ExampleOptions() {
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()
	perUser := ration.Rule{Name: "per-user", Limit: ration.SlidingWindow{Limit: 2, Window: time.Minute}}

	opts := &httplimit.Options{
		Skip:    func(r *http.Request) bool { return r.URL.Path == "/health" },
		Headers: httplimit.Draft12,
		Error: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, httplimit.ErrNoKey) {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			log.Print(err) // no keys are in it
			http.Error(w, "cannot tell now", http.StatusServiceUnavailable)
		},
	}

	guard, err := httplimit.New(limiter, []httplimit.Policy{{Limit: perUser, Key: httplimit.ByUser()}}, opts)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ask(guard(api), func(*http.Request) {}).Code)
	w := ask(guard(api), func(r *http.Request) { r.SetBasicAuth("ada", "secret") })
	fmt.Println(w.Code, w.Header().Get("RateLimit"))
	// Output:
	// 401
	// 200 "per-user";a=1;w=60;c=1
}

func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("x-ratelimit-remaining-requests", "0")
		w.Header().Set("x-ratelimit-reset-requests", "1m2s")
		io.WriteString(w, "an answer")
	}))
	defer server.Close()
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()

	client := &http.Client{Transport: &httplimit.Transport{
		Limiter: limiter, // on a store that all processes share
		Policies: []httplimit.Policy{{
			Limit: ration.Rule{Name: "model-api", Limit: ration.TokenBucket{Burst: 10, Refill: ration.PerMinute(60)}},
			Key:   func(*http.Request) string { return "our account" },
		}},
		MaxWait: 30 * time.Second,
	}}

	for range 2 {
		r, err := client.Post(server.URL, "application/json", strings.NewReader("{}"))
		if late, ok := errors.AsType[*ration.RefusedError](err); ok {
			fmt.Println("not sent: not before", late.RetryAfter.Round(time.Second))
			continue
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Status)
		r.Body.Close()
	}
	client.CloseIdleConnections()
	// Output:
	// 200 OK
	// not sent: not before 1m2s
}
