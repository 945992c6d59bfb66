package httpapi

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/ration-go/ration/internal/wire"
)

// failures logs what is the server's or its store's trouble: of each code one line a second at most, with how many were
// left out, so that an outage does not fill the disk. Keys, ids and other parts of requests are never logged.
type failures struct {
	logger *slog.Logger

	mu     sync.Mutex
	byCode map[wire.Code]*failure
}

type failure struct {
	last time.Time
	left int
}

func (f *failures) failed(r *http.Request, p *wire.Problem, err error) {
	if p.Status < http.StatusInternalServerError || r.Context().Err() != nil {
		return
	}
	left, ok := f.due(p.Code, time.Now())
	if ok {
		f.logger.WarnContext(r.Context(), "could not decide", "path", r.Pattern, "code", string(p.Code), "status", p.Status,
			"error", err, "not_logged", left)
	}
}

// due reports whether to log now, and how often it was not since the last time.
func (f *failures) due(code wire.Code, now time.Time) (left int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byCode[code]
	if one == nil {
		one = new(failure)
		f.byCode[code] = one
	}
	if now.Sub(one.last) < time.Second {
		one.left++
		return 0, false
	}
	left, one.left, one.last = one.left, 0, now
	return left, true
}
