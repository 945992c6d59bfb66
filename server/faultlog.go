package server

import (
	"bytes"
	"log/slog"
	"sync"
	"time"
)

// faultLog takes what net/http says of connections. Of those that do not get as far as a call, which scanners make by the
// thousand, one line a second is enough.
type faultLog struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
	left int
}

// Write logs a line.
func (f *faultLog) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	if !bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		f.log.Error(text)
		return len(line), nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.last) < time.Second {
		f.left++
		return len(line), nil
	}
	f.last = now
	f.log.Warn(text, "not_logged", f.left)
	f.left = 0
	return len(line), nil
}
