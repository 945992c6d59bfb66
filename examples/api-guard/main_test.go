package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	limiter := ration.New(memstore.New(nil), &ration.Options{Clock: func() time.Time { return now }})
	served := 0
	handler := guard(limiter, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	get := func(user string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if user != "" {
			r.SetBasicAuth(user, "")
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for range 5 {
		if w := get("ada"); w.Code != http.StatusOK {
			t.Fatal(w.Code)
		}
	}
	if w := get("ada"); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("the sixth: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	if w := get("grace"); w.Code != http.StatusOK {
		t.Errorf("another user: %d", w.Code)
	}
	if w := get(""); w.Code != http.StatusUnauthorized {
		t.Errorf("nobody: %d", w.Code)
	}
	now = now.Add(time.Second)
	if w := get("ada"); w.Code != http.StatusOK {
		t.Errorf("a second later: %d", w.Code)
	}
	d, err := limiter.Peek(t.Context(), ration.Global, together, 1)
	if err != nil || d.Used != 7 || served != 7 {
		t.Errorf("together: %d used, %d served, %v", d.Used, served, err)
	}
	if err := limiter.Close(); err != nil {
		t.Fatal(err)
	}
	if w := get("ada"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a store: %d", w.Code)
	}
}
