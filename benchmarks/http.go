//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/client"
)

// https compares decisions over HTTP with the least that net/http does: a handler that reads the same request and has its
// answer ready. Each server is a process of its own.
func https() []group {
	keys := make([]string, 100_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%d", i)
	}
	return []group{
		{name: "http, one decision a call in memory, 64 callers", workers: grpcCallers, timed: true, chart: true, candidates: []candidate{
			{name: "net/http, a server that decides nothing", role: bound, open: posts(keys, serveHTTPEcho)},
			{name: "ration serve", role: ours, open: posts(keys, serveHTTP)},
			{name: "ration serve, asked by package client, which joins calls", role: variant, open: clients(keys)},
		}},
	}
}

// posts has each decision made by a request of a client of net/http.
func posts(keys []string, kind string) opener {
	return func() (func(int, uint64) error, func(), error) {
		p, err := startServer(kind)
		if err != nil {
			return nil, nil, err
		}
		transport := &http.Transport{MaxIdleConnsPerHost: grpcCallers}
		c := &http.Client{Transport: transport}
		work := func(_ int, i uint64) error {
			return post(c, "http://"+p.address+"/v1/take", takeBody(nil, at(keys, i)))
		}
		return work, func() { transport.CloseIdleConnections(); p.end() }, nil
	}
}

// clients has decisions made as a Go program would.
func clients(keys []string) opener {
	return func() (func(int, uint64) error, func(), error) {
		p, err := startServer(serveHTTP)
		if err != nil {
			return nil, nil, err
		}
		store, err := client.New("http://"+p.address, nil)
		if err != nil {
			p.end()
			return nil, nil, err
		}
		l := ration.New(store, nil)
		limit := ration.FixedWindow{Limit: 1_000_000_000, Window: time.Hour}
		work := func(_ int, i uint64) error {
			d, err := l.Take(context.Background(), ration.KeyOf(at(keys, i)), limit, 1)
			if err == nil && !d.Allowed {
				err = errRefused
			}
			return err
		}
		return work, func() { l.Close(); p.end() }, nil
	}
}

func takeBody(b []byte, key string) []byte {
	return fmt.Appendf(b, `{"key":%q,"limit":%q}`, key, limitText)
}

func post(c *http.Client, url string, body []byte) error {
	answer, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err == nil && (answer.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(`"allowed":true`)) || bytes.Contains(text, []byte(`"allowed":false`))) {
		err = fmt.Errorf("%s: %s", answer.Status, text[:min(len(text), 200)])
	}
	return err
}

// serveEchoOverHTTP reads a request as JSON and answers with what it has.
func serveEchoOverHTTP() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	const answer = `{"allowed":true,"never":false,"degraded":false,"name":"","limit":1000000000,"used":1000,"remaining":999999000,"retry_after_ms":0,"reset_after_ms":3600000,"at_us":1796000000000000}` + "\n"
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Key, Limit string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	})
	fmt.Printf("listens on http://%s\n", l.Addr())
	return http.Serve(l, handler)
}
