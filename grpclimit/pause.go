package grpclimit

import (
	"strconv"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// longestPause is how long a server is left alone at most, whatever it says.
const longestPause = time.Hour

// hear takes in how a call ended. again says that the server refused it for now.
func (t *turn) hear(err error, trailer metadata.MD) (again bool) {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return false
	}
	if code := st.Code(); code != codes.ResourceExhausted && code != codes.Unavailable {
		return false
	}
	wait, told := waitOf(st, trailer)
	if told {
		t.pacer.pauses.pause(t.scope, wait)
	}
	return told
}

// waitOf is how long a server wants to be left alone.
func waitOf(st *status.Status, trailer metadata.MD) (wait time.Duration, told bool) {
	if values := trailer.Get(pushbackKey); len(values) == 1 {
		ms, err := strconv.ParseInt(values[0], 10, 32)
		if err != nil || ms < 0 {
			return 0, false // trying again is of no use
		}
		wait, told = time.Duration(ms)*time.Millisecond, true
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok && info.GetRetryDelay().IsValid() {
			wait, told = max(wait, info.GetRetryDelay().AsDuration()), true
		}
	}
	return min(max(0, wait), longestPause), told
}

// pauses are those that servers asked for, by scope.
type pauses struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// maxPauses is how many scopes are kept.
const maxPauses = 4096

func (p *pauses) left(scope string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.until[scope]
	if !ok {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(p.until, scope)
	}
	return max(0, left)
}

func (p *pauses) pause(scope string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until == nil {
		p.until = map[string]time.Time{}
	}
	now := time.Now()
	if len(p.until) >= maxPauses {
		for s, until := range p.until {
			if !until.After(now) {
				delete(p.until, s)
			}
		}
		for s := range p.until { // any one
			if len(p.until) < maxPauses {
				break
			}
			delete(p.until, s)
		}
	}
	if until := now.Add(wait); until.After(p.until[scope]) {
		p.until[scope] = until
	}
}
