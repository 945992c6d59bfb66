package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/client"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// take is a transaction of one op.
func take(id string) *driver.Txn {
	return &driver.Txn{Verb: driver.Take, Ops: []driver.Op{{
		Key: driver.Key{Space: "|c||", ID: id}, Kind: driver.Counter, Size: 5, Span: 1e6, Cost: 1,
	}}}
}

// allow answers that every transaction passed.
func allow(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	txns, err := wire.Decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for i := range txns {
		txns[i].Allowed, txns[i].At = true, 7
		for j := range txns[i].Ops {
			txns[i].Ops[j].Result = driver.Result{Allowed: true, Times: 1, Used: int64(len(txns))}
		}
	}
	answer, err := wire.EncodeAnswers(txns)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// open is a Store of a server with handler.
func open(t *testing.T, handler http.HandlerFunc, opts *client.Options) *client.Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return at(t, server.URL, opts)
}

func at(t *testing.T, address string, opts *client.Options) *client.Store {
	t.Helper()
	s, err := client.New(address, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		opts    *client.Options
		says    string // "": it is fine
	}{
		{"http://127.0.0.1:7531", nil, ""},
		{"http://127.0.0.1:7531/", nil, ""},
		{"https://limits.example/ration/", nil, ""},
		{"http://[::1]:7531", nil, ""},
		{"unix:/run/ration.sock", nil, ""},
		{"unix:///run/ration.sock", nil, ""},
		{"unix:ration.sock", nil, ""},
		{"", nil, "http://host:port"},
		{"127.0.0.1:7531", nil, "not a URL"},
		{"localhost:7531", nil, "http://host:port"},
		{"http://", nil, "http://host:port"},
		{"ftp://host", nil, "http://host:port"},
		{"http://host:port", nil, "not a URL"},
		{"http://user:secret@host", nil, "Options.Token"},
		{"http://host?x=1", nil, "query"},
		{"http://host#x", nil, "fragment"},
		{"unix:", nil, "socket"},
		{"unix://host/path", nil, "socket"},
		{"unix:/path", &client.Options{HTTPClient: http.DefaultClient}, "socket"},
		{"http://host", &client.Options{Token: "a\r\nb"}, "token"},
	} {
		s, err := client.New(c.address, c.opts)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", c.address, err)
				continue
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
}

func TestRequest(t *testing.T) {
	t.Parallel()
	var last atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(r)
		allow(w, r)
	}))
	defer server.Close()
	for _, opts := range []*client.Options{{Token: "secret"}, {HTTPClient: server.Client()}} {
		s := at(t, server.URL+"/base/", opts)
		txn := take("x")
		if err := s.Apply(t.Context(), []*driver.Txn{txn}); err != nil || !txn.Allowed || txn.At != 7 || txn.Ops[0].Result.Used != 1 {
			t.Errorf("%v, %+v", err, txn)
		}
		r := last.Load()
		want := map[string]string{"": "", "secret": "Bearer secret"}[opts.Token]
		if r.Method != "POST" || r.URL.Path != "/base/v1/apply" || r.Header.Get("Authorization") != want ||
			r.Header.Get("Content-Type") != "application/json" || r.ContentLength <= 0 || r.Header.Get("Idempotency-Key") != "" {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
	}
	info := at(t, server.URL, nil).Info()
	if info.Kind != "server" || info.Scope != driver.Network || info.Caps != driver.CapsRun|driver.CapsHolds || info.MaxBatch < 2 || info.Instant {
		t.Errorf("%+v", info)
	}
}

// TestAnswersThatAreErrors has, for each, whether it is sure that nothing was charged, and which error it is.
func TestAnswersThatAreErrors(t *testing.T) {
	t.Parallel()
	problem := func(status int, code wire.Code, charged string) string {
		text, err := json.Marshal(wire.Problem{Title: "x", Status: status, Code: code, Detail: "the detail", Charged: charged})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, c := range []struct {
		status     int
		kind, body string
		sure       bool
		is         error
		says       string
	}{
		{400, wire.ProblemType, problem(400, wire.CodeInvalidTxn, "no"), true, wire.ErrInvalidTxn, "the detail"},
		{400, wire.ProblemType, problem(400, "unknown_field", "no"), true, nil, "the detail"},
		{413, wire.ProblemType, problem(413, "body_too_large", "no"), true, nil, "the detail"},
		{401, wire.ProblemType, problem(401, "unauthorized", "no"), true, nil, "unauthorized"},
		{503, wire.ProblemType, problem(503, wire.CodeUnavailable, "no"), true, nil, "the detail"},
		{503, wire.ProblemType + "; charset=utf-8", problem(503, wire.CodeFull, "no"), true, driver.ErrFull, "503"},
		{503, wire.ProblemType, problem(503, wire.CodeClosed, "no"), true, driver.ErrClosed, ""},
		{503, wire.ProblemType, problem(503, wire.CodeOverloaded, "no"), true, ration.ErrOverloaded, ""},
		{501, wire.ProblemType, problem(501, wire.CodeUnsupported, "no"), true, ration.ErrUnsupported, ""},
		{504, wire.ProblemType, problem(504, wire.CodeOutcomeUnknown, "unknown"), false, nil, "the detail"},
		{503, wire.ProblemType, problem(503, wire.CodeFull, "unknown"), false, nil, "the detail"},
		{503, wire.ProblemType, problem(503, wire.CodeFull, ""), false, nil, ""},
		{500, wire.ProblemType, `{"title":"not ours"}`, false, nil, "500"},
		{500, wire.ProblemType, `{"code":`, false, nil, "500"},
		{400, wire.ProblemType, ``, true, nil, "400"},
		{400, "text/html", problem(400, "x", "unknown"), true, nil, "address"},
		{404, "text/plain", "404 page not found", true, nil, "address"},
		{405, "", "", true, nil, "405"},
		{408, "text/plain", "", false, nil, "408"},
		{429, "text/plain", "", true, nil, "429"},
		{500, "text/plain", "", false, nil, "500"},
		{502, "text/html", "<h1>Bad Gateway</h1>", false, nil, "502"},
		{503, "text/plain", problem(503, wire.CodeFull, "no"), false, nil, "503"},
		{201, "application/json", `{"txns":[{"allowed":true,"ops":[{"allowed":true}]}]}`, false, nil, "201"},
		{204, "", "", false, nil, "204"},
		{200, "application/json", "", false, nil, "answer"},
		{200, "text/html", "<h1>Welcome</h1>", false, nil, "answer"},
		{200, "application/json", `{"txns":[]}`, false, nil, "answer"},
		{200, "application/json", `{"txns":[{"allowed":true,"ops":[]}]}`, false, nil, "answer"},
		{200, "application/json", `{"txns":[{"allowed":true,"ops":[{"allowed":true}],"more":1}]}`, false, nil, "answer"},
	} {
		s := open(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}, nil)
		txn := take("xyzzy")
		err := s.Apply(t.Context(), []*driver.Txn{txn})
		if err == nil || errors.Is(err, driver.ErrNotApplied) != c.sure || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d %s %s: %v", c.status, c.kind, c.body, err)
		}
		if txn.Allowed || err != nil && strings.Contains(err.Error(), "xyzzy") {
			t.Errorf("%d %s: allowed %v, %v", c.status, c.body, txn.Allowed, err)
		}
	}
}

func TestErrorsOfSingleTransactions(t *testing.T) {
	t.Parallel()
	s := open(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"txns":[{"error":{"code":"full","detail":"no room"},"ops":[{}]},{"error":{"code":"outcome_unknown","detail":"who knows"}},`+
			`{"at_us":5,"error":{"code":"clock","detail":"late"},"ops":[{}]},{"allowed":true,"at_us":5,"ops":[{"allowed":true}]},{"error":{"code":"of_later","detail":""}}]}`)
	}, nil)
	batch := []*driver.Txn{take("a"), take("b"), take("c"), take("d"), take("e")}
	if err := s.Apply(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(batch[0].Err, driver.ErrFull) || batch[1].Err == nil || errors.Is(batch[1].Err, driver.ErrNotApplied) ||
		!errors.Is(batch[2].Err, driver.ErrClock) || batch[2].At != 5 || batch[3].Err != nil || !batch[3].Allowed ||
		batch[4].Err == nil || errors.Is(batch[4].Err, driver.ErrNotApplied) {
		for _, txn := range batch {
			t.Errorf("%+v", txn)
		}
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		followed := false
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
		defer other.Close()
		redirect := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, status) }
		for _, opts := range []*client.Options{{Token: "secret"}, {HTTPClient: &http.Client{Transport: other.Client().Transport}}} {
			s := open(t, redirect, opts)
			if err := s.Apply(t.Context(), []*driver.Txn{take("x")}); err == nil || errors.Is(err, driver.ErrNotApplied) || followed {
				t.Errorf("%d: %v, followed: %v", status, err, followed)
			}
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 400, 500} {
		s := open(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", wire.ProblemType)
			w.WriteHeader(status)
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, nil)
		if err := s.Apply(t.Context(), []*driver.Txn{take("x")}); err == nil {
			t.Errorf("%d: an endless answer is no error", status)
		}
	}
}

// TestNobodyListens: a connection that is refused surely charged nothing, so the caller may repeat.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, a := range []string{address, "unix:" + t.TempDir() + "/s"} {
		if err := at(t, a, nil).Apply(t.Context(), []*driver.Txn{take("x")}); !errors.Is(err, driver.ErrNotApplied) {
			t.Errorf("%s: %v", a, err)
		}
	}
}

// TestEndedContext: what was not sent charged nothing, and what was sent may have.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := open(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(arrived)
		<-release
	}, nil)
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Apply(ctx, []*driver.Txn{take("x")}); !errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.Canceled) {
		t.Errorf("not sent: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if err := s.Apply(ctx, []*driver.Txn{take("x")}); errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.Canceled) {
		t.Errorf("sent: %v", err)
	}
}

// TestSilentServer: a socket that is open and says nothing ends with the timeout.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := open(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	}, &client.Options{Timeout: 2 * time.Second})
	defer close(release)
	if err := s.Apply(t.Context(), []*driver.Txn{take("x")}); errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// TestLostReplyIsNotRepeated: the server has read the request and the connection breaks. net/http repeats requests that
// met a dead idle connection; this one it must not.
func TestLostReplyIsNotRepeated(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	var lose atomic.Bool
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if lose.Load() {
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		}
		allow(w, r)
	}, nil)
	for i := range 50 {
		lose.Store(i%2 == 1) // each lost reply is on a connection that was used before
		seen.Store(0)
		err := s.Apply(t.Context(), []*driver.Txn{take("x")})
		if n := seen.Load(); n != 1 {
			t.Fatalf("call %d reached the server %d times", i, n)
		}
		if lose.Load() && (err == nil || errors.Is(err, driver.ErrNotApplied)) || !lose.Load() && err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

// TestIdleConnectionsThatDied: the server has closed what lay idle, as in a restart. Each call is decided at most once,
// and one that says that nothing was changed is decided never.
func TestIdleConnectionsThatDied(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		allow(w, r)
	}))
	defer server.Close()
	s := at(t, server.URL, nil)
	failed := 0
	for i := range 200 {
		seen.Store(0)
		err := s.Apply(t.Context(), []*driver.Txn{take("x")})
		switch n := seen.Load(); {
		case n > 1, n == 0 && err == nil, n == 1 && errors.Is(err, driver.ErrNotApplied):
			t.Fatalf("call %d reached the server %d times: %v", i, n, err)
		case err != nil:
			failed++
		}
		server.CloseClientConnections()
	}
	t.Logf("%d of 200 calls met a connection that was dying", failed)
}

// lateTransport is one that looks at the body only after the call has ended.
type lateTransport struct {
	ended chan struct{}
	got   chan int
}

func (l lateTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	go func() {
		<-l.ended
		body, _ := io.ReadAll(r.Body)
		again, err := r.GetBody()
		if err != nil {
			panic(err)
		}
		second, _ := io.ReadAll(again)
		l.got <- len(body) + len(second)
	}()
	return nil, errors.New("given up")
}

// TestNothingIsSentAfterTheEnd: who is told that nothing was changed can rely on it.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	t.Parallel()
	late := lateTransport{make(chan struct{}), make(chan int)}
	s := at(t, "http://host", &client.Options{HTTPClient: &http.Client{Transport: late}})
	if err := s.Apply(t.Context(), []*driver.Txn{take("x")}); !errors.Is(err, driver.ErrNotApplied) {
		t.Errorf("%v", err)
	}
	close(late.ended)
	if n := <-late.got; n != 0 {
		t.Errorf("%d bytes were still there to send", n)
	}
}

func TestLongBatches(t *testing.T) {
	t.Parallel()
	var requests, longest atomic.Int64
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		longest.Store(max(longest.Load(), r.ContentLength))
		allow(w, r)
	}, nil)
	batch := make([]*driver.Txn, 0, 2000)
	for i := range cap(batch) {
		batch = append(batch, take(fmt.Sprint(i, strings.Repeat("x", 4000))))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
	allowed, unknown := 0, 0
	for _, txn := range batch {
		switch {
		case txn.Err == nil && txn.Allowed:
			allowed++
		case txn.Err != nil && !errors.Is(txn.Err, driver.ErrNotApplied):
			unknown++
		}
	}
	if n := requests.Load(); n != 4 || allowed != 1500 || unknown != 500 || longest.Load() > wire.MaxBody {
		t.Errorf("%d requests, the longest of %d bytes; %d allowed, %d unknown", n, longest.Load(), allowed, unknown)
	}
	huge := take(strings.Repeat("x", wire.MaxBody))
	if err := s.Apply(t.Context(), []*driver.Txn{huge}); !errors.Is(err, driver.ErrNotApplied) {
		t.Errorf("a huge transaction: %v", err)
	}
	if err := s.Apply(t.Context(), []*driver.Txn{{Verb: 99}}); !errors.Is(err, driver.ErrNotApplied) {
		t.Errorf("an unknown verb: %v", err)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	s := open(t, allow, nil)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := s.Apply(t.Context(), []*driver.Txn{take("x")}); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("%v", err)
	}
}

func BenchmarkApply(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(allow))
	defer server.Close()
	s, err := client.New(server.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			batch := make([]*driver.Txn, n)
			for i := range batch {
				batch[i] = take(fmt.Sprint(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Apply(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
