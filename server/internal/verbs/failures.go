package verbs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ration-go/ration/internal/wire"
)

// Failures logs what is the server's or its store's trouble: of each code one line a second at most, with how many were
// left out, so that an outage does not fill the disk. Keys, ids and other parts of requests are never logged.
type Failures struct {
	logger *slog.Logger

	mu     sync.Mutex
	byCode map[wire.Code]*failure
}

type failure struct {
	last time.Time
	left int
}

// NewFailures logs to logger; nil is slog.Default().
func NewFailures(logger *slog.Logger) *Failures {
	if logger == nil {
		logger = slog.Default()
	}
	return &Failures{logger: logger, byCode: map[wire.Code]*failure{}}
}

// Failed is told of an error of a code, and with what else belongs on the line. A caller who has gone is no trouble.
func (f *Failures) Failed(ctx context.Context, code wire.Code, err error, attrs ...any) {
	if ctx.Err() != nil {
		return
	}
	if left, ok := f.due(code, time.Now()); ok {
		attrs = append(attrs, "code", string(code), "error", err, "not_logged", left)
		f.logger.WarnContext(ctx, "could not decide", attrs...)
	}
}

// due reports whether to log now, and how often it was not since the last time.
func (f *Failures) due(code wire.Code, now time.Time) (left int, ok bool) {
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
