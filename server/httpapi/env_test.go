package httpapi_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/httpapi"
)

// counted is a store that counts how often it is asked, and can be told to fail.
type counted struct {
	driver.Store
	info  *driver.Info
	calls atomic.Int64
	fail  func(batch []*driver.Txn) error // in place of the call
	lose  func(batch []*driver.Txn) error // after it
}

func (c *counted) Apply(ctx context.Context, batch []*driver.Txn) error {
	c.calls.Add(1)
	if c.fail != nil {
		if err := c.fail(batch); err != nil {
			return err
		}
	}
	err := c.Store.Apply(ctx, batch)
	if err == nil && c.lose != nil {
		err = c.lose(batch)
	}
	return err
}

func (c *counted) Info() driver.Info {
	if c.info != nil {
		return *c.info
	}
	info := c.Store.Info()
	info.Caps &= driver.CapsRun // what a store with holds does is tested by itself
	return info
}

var configured = []ration.Rule{
	{Name: "chat", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(10)}},
	{Name: "day", Limit: ration.Budget{Limit: 100, Period: ration.Day}},
	{Name: "daily", Limit: ration.SlidingWindow{Limit: 3, Window: 24 * 3600e9}, OnError: ration.AllowOnError},
}

// env is an API over a store in memory.
type env struct {
	http.Handler
	store *counted
}

func newEnv(t testing.TB, opts *httpapi.Options, more ...func(*counted)) *env {
	t.Helper()
	if opts == nil {
		opts = &httpapi.Options{Limits: configured, Version: "v0"}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	store := &counted{Store: memstore.New(nil)}
	for _, change := range more {
		change(store)
	}
	l := ration.New(store, nil)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	h, err := httpapi.New(l, store, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &env{h, store}
}

func (e *env) do(method, path, body string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w.Result()
}

type object = map[string]any

// post is the status and the answer of a call of /v1/verb.
func (e *env) post(t testing.TB, verb, body string) (int, object) {
	t.Helper()
	response := e.do(http.MethodPost, "/v1/"+verb, body)
	return response.StatusCode, bodyOf(t, response)
}

// ok is the answer of a call that must be one.
func (e *env) ok(t testing.TB, verb, body string) object {
	t.Helper()
	status, answer := e.post(t, verb, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %v", verb, body, status, answer)
	}
	return answer
}

func bodyOf(t testing.TB, response *http.Response) object {
	t.Helper()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer object
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return answer
}
