package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestActivity(t *testing.T) {
	t.Parallel()
	h := newTestHandler(t)
	call := func(method, path, body string) (int, object) {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var answer object
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s: %v %s", path, err, w.Body)
		}
		return w.Code, answer
	}
	for range 21 {
		call("POST", "/v1/take", `{"key": "needle", "limit": "chat"}`)
	}
	call("POST", "/v1/take-all", `{"charges": [{"key": "needle", "limit": "chat"}, {"key": "b", "limit": "fixed 9/1h"}]}`)
	status, a := call("GET", "/v1/activity", "")
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	totals := a["totals"].(object)
	if status != 200 || totals["allowed"] != 20.0 || totals["refused"] != 2.0 || a["store"].(object)["up"] != true || strings.Contains(string(text), "needle") {
		t.Errorf("%d %s", status, text)
	}
	refused := a["most_refused"].([]any)[0].(object)
	if refused["count"] != 2.0 || refused["limit"] != "chat" {
		t.Errorf("%v", refused)
	}
	fingerprint := refused["fingerprint"].(string)
	_, byKey := call("POST", "/v1/activity/key", `{"key": "needle"}`)
	_, byPrint := call("POST", "/v1/activity/key", `{"fingerprint": "`+fingerprint+`"}`)
	for _, state := range []object{byKey, byPrint} {
		if one := state["limits"].([]any)[0].(object); state["fingerprint"] != fingerprint || one["used"] != 20.0 || one["name"] != "chat" || one["allowed"] != false {
			t.Errorf("%v", state)
		}
	}
	for _, body := range []string{`{"fingerprint": "0123456789abcdef"}`, `{"fingerprint": ""}`, `{"fingerprint": "` + fingerprint + `", "key": "a"}`, `{"fingerprint": "` + fingerprint + `", "group": "a"}`, `{}`, `{"key": ""}`} {
		if status, a := call("POST", "/v1/activity/key", body); status != 400 || a["charged"] != "no" {
			t.Errorf("%s: %d %v", body, status, a)
		}
	}
	if status, a := call("POST", "/v1/reset", `{"fingerprint": "`+fingerprint+`", "limit": "chat"}`); status != 200 || a["done"] != true {
		t.Errorf("%d %v", status, a)
	}
	if _, a := call("POST", "/v1/take", `{"key": "needle", "limit": "chat"}`); a["allowed"] != true {
		t.Errorf("after the reset: %v", a)
	}
	call("POST", "/v1/forget", `{"key": "needle"}`)
	if status, _ := call("POST", "/v1/activity/key", `{"fingerprint": "`+fingerprint+`"}`); status != 400 {
		t.Errorf("a key that was forgotten is still known: %d", status)
	}
}

func TestNoActivity(t *testing.T) {
	t.Parallel()
	h := newTestHandler(t)
	h.watch, h.Activity = nil, nil
	for _, c := range [][3]string{{"GET", "/v1/activity"}, {"GET", "/v1/activity/stream"}, {"POST", "/v1/activity/key", `{"key": "a"}`}, {"POST", "/v1/reset", `{"fingerprint": "0123456789abcdef", "limit": "chat"}`}} {
		r := httptest.NewRequest(c[0], c[1], strings.NewReader(c[2]))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 404 || !strings.Contains(w.Body.String(), "dashboard.serve") {
			t.Errorf("%v: %d %s", c, w.Code, w.Body)
		}
	}
}

// TestStreams: one says something each second, there are not too many, and they end when the server stops.
func TestStreams(t *testing.T) {
	t.Parallel()
	h := newTestHandler(t)
	stop := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(WithStopping(r.Context(), stop)))
	}))
	s.Start()
	defer s.Close()
	client := s.Client()
	open := func(ctx context.Context) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/v1/activity/stream", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	var streams []*http.Response
	for range maxLooking {
		res := open(t.Context())
		defer res.Body.Close()
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%d %v", res.StatusCode, res.Header)
		}
		streams = append(streams, res)
	}
	res := open(t.Context())
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 503 || !strings.Contains(string(body), "overloaded") {
		t.Errorf("one too many: %d %s %v", res.StatusCode, body, err)
	}
	res.Body.Close()
	lines := bufio.NewReader(streams[0].Body)
	for range 2 {
		line, err := lines.ReadString('\n')
		data, ok := strings.CutPrefix(line, "data: ")
		var a object
		if err != nil || !ok || json.Unmarshal([]byte(data), &a) != nil || a["totals"] == nil {
			t.Fatalf("%q %v", line, err)
		}
		if empty, err := lines.ReadString('\n'); empty != "\n" || err != nil {
			t.Fatalf("%q %v", empty, err)
		}
	}
	close(stop)
	for _, res := range streams {
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Errorf("a stream did not end in good order: %v", err)
		}
	}
}
