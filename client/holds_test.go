package client_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/wire"
)

// saying is a server that answers status and body to everything.
func saying(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if status != http.StatusOK {
			w.Header().Set("Content-Type", wire.ProblemType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestPagesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		holds  int
		err    string // "": none
	}{
		{200, `{"holds":[]}`, 0, ""},
		{200, `{"holds":[],"more":true}`, 0, ""},
		{200, `{"holds":[{"id":"YQ=="}]}`, 1, ""},
		{200, `{"holds":[{"id":"YQ=="},{"id":"YQ=="}]}`, 1, "not sorted"},
		{200, `{"holds":[{"id":"YQ=="}],"more":true}`, 1, "not sorted"}, // the same again and again
		{200, `{"holds":1}`, 0, "reading the answer"},
		{200, ``, 0, "reading the answer"},
		{501, `{"code":"unsupported","detail":"x","charged":"no"}`, 0, "501"},
	} {
		s := open(t, saying(c.status, c.body), nil)
		holds, said := 0, ""
		for h, err := range s.Holds(t.Context()) {
			if err != nil {
				said = err.Error()
			} else if holds++; h.ID != "a" {
				t.Errorf("%s: %+v", c.body, h)
			}
		}
		if holds != c.holds || (said != "") != (c.err != "") || !strings.Contains(said, c.err) {
			t.Errorf("%s: %d holds, %q", c.body, holds, said)
		}
	}
}

func TestSweep(t *testing.T) {
	t.Parallel()
	var body atomic.Value
	s := open(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/sweep" {
			t.Errorf("%s: %v", r.URL, err)
		}
		body.Store(string(text))
		_, _ = io.WriteString(w, `{"dropped":3}`)
	}, nil)
	for _, c := range []struct {
		now  driver.Micros
		max  int
		sent string
	}{{0, 5, `{"max":5}`}, {7, 1 << 30, `{"now_us":7,"max":100000}`}} {
		if n, err := s.Sweep(t.Context(), c.now, c.max); err != nil || n != 3 || body.Load() != c.sent {
			t.Errorf("%d, %v; sent %v", n, err, body.Load())
		}
	}
	for status, text := range map[int]string{200: `{"dropped":1.5}`, 501: `{"code":"unsupported","detail":"x","charged":"no"}`} {
		_, err := open(t, saying(status, text), nil).Sweep(t.Context(), 0, 1)
		if err == nil || status == 501 && !errors.Is(err, ration.ErrUnsupported) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Sweep(t.Context(), 0, 1); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("%v", err)
	}
	for _, err := range s.Holds(t.Context()) {
		if !errors.Is(err, driver.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}
