package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/server"
)

// TestOpenUpstash: the URL and the token come from the environment, at the first use, and what fails does not show the token.
func TestOpenUpstash(t *testing.T) {
	const token = "s3cret-token"
	var path, access, body string
	upstash := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		path, access, body = r.URL.Path, r.Header.Get("Authorization"), string(text)
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":"WRONGPASS `+access+`"}`)
	}))
	defer upstash.Close()
	for _, name := range []string{"UPSTASH_REDIS_REST_URL", "UPSTASH_REDIS_REST_TOKEN", "KV_REST_API_URL", "KV_REST_API_TOKEN"} {
		t.Setenv(name, "")
	}
	cfg := server.Defaults()
	cfg.Redis.Prefix = "limits:"
	if _, err := server.OpenUpstash(t.Context(), "upstash:database", cfg); err == nil || !strings.Contains(err.Error(), "UPSTASH_REDIS_REST_URL") {
		t.Errorf("a URL with more: %v", err)
	}
	s, err := server.OpenUpstash(t.Context(), "upstash:", cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := ration.New(s, nil)
	defer l.Close()
	hit := func() error {
		_, _, err := l.Hit(context.Background(), ration.KeyOf("k"), time.Minute, 1)
		return err
	}
	if err := hit(); !errors.Is(err, driver.ErrNotApplied) || !strings.Contains(err.Error(), "UPSTASH_REDIS_REST_URL") {
		t.Errorf("without a URL: %v", err)
	}
	t.Setenv("UPSTASH_REDIS_REST_URL", upstash.URL)
	t.Setenv("UPSTASH_REDIS_REST_TOKEN", token)
	if err := hit(); !errors.Is(err, driver.ErrNotApplied) || strings.Contains(err.Error(), token) {
		t.Errorf("with a wrong token: %v", err)
	}
	if path != "/" || access != "Bearer "+token || !strings.Contains(body, "limits:") {
		t.Errorf("the request was for %q as %q: %s", path, access, body)
	}
}
