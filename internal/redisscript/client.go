package redisscript

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
)

// Client sends commands to Redis. It is safe for concurrent use.
type Client interface {
	// Do sends each command to where its key is, all in as few round trips as it can, and fills in one Reply for each. A
	// command that may have been executed is never sent again. It returns soon after ctx is done, and keeps neither slice.
	Do(ctx context.Context, cmds []Cmd, replies []Reply)
}

// Cmd is one command.
type Cmd struct {
	Args   []string
	Key    string // decides where on a cluster it goes; "": to any node
	Keys   int    // a script's: so many of Args, from the fourth, are its keys
	Script string // the text of the script that Args names
	Sure   bool   // it writes; the client is to make sure that enough replicas have it, if it was told to
	Aside  bool   // it is no decision; a client may keep it out of the way of those
}

// Reply answers a Cmd.
type Reply struct {
	Text string   // a text, or a number as text
	List []string // of an array; nil elements are ""
	Err  error    // a *ServerError if Redis answered one
}

// ServerError is an error that Redis answered.
type ServerError struct {
	Code string // its first word
	Text string
}

// NewServerError is the error of a reply's text.
func NewServerError(text string) *ServerError {
	code, _, _ := strings.Cut(text, " ")
	return &ServerError{code, text}
}

// Error is what Redis said.
func (e *ServerError) Error() string { return "redis: " + e.Text }

// ErrReplicas says that a charge was made, but did not reach as many replicas as it has to.
var ErrReplicas = errors.New("the charge did not reach enough replicas in time, so a fail-over may forget it")

// notRun are the codes of errors by which Redis says that it did not run a command, or stopped a script at its first write,
// before it.
var notRun = map[string]bool{
	noScript: true, "READONLY": true, "OOM": true, "MISCONF": true, "NOREPLICAS": true, "LOADING": true, "BUSY": true, "MASTERDOWN": true,
	"CLUSTERDOWN": true, "MOVED": true, "ASK": true, "TRYAGAIN": true, "CROSSSLOT": true, "NOAUTH": true, "WRONGPASS": true, "NOPROTO": true,
}

const noScript = "NOSCRIPT"

// failure is err as Apply answers it.
func failure(err error) error {
	var server *ServerError
	switch {
	case err == nil || errors.Is(err, driver.ErrNotApplied):
		return err
	case !errors.As(err, &server):
		return err
	case server.Code == "OOM":
		return fmt.Errorf("%w: %w", driver.ErrFull, err)
	case notRun[server.Code]:
		return fmt.Errorf("%w: %w", driver.ErrNotApplied, err)
	}
	return err
}

// do sends cmds, and those again that surely were not run and may be now: a server has forgotten their script, or their
// slot of a cluster is on its way to another node.
func (s *Store) do(ctx context.Context, cmds []Cmd, replies []Reply) {
	s.client.Do(ctx, cmds, replies)
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		again, soon := toRepeat(cmds, replies)
		if len(again) == 0 || !soon && !sleep(ctx, wait) {
			return
		}
		some, answers := make([]Cmd, len(again)), make([]Reply, len(again))
		for j, i := range again {
			some[j] = cmds[i]
		}
		s.client.Do(ctx, some, answers)
		for j, i := range again {
			replies[i] = answers[j]
		}
	}
}

const (
	leastWait = 2 * time.Millisecond
	mostWait  = 64 * time.Millisecond
)

// toRepeat are the places of the commands to be sent again, soon: at once. Those whose script is unknown get it.
func toRepeat(cmds []Cmd, replies []Reply) (again []int, soon bool) {
	soon = true
	for i := range replies {
		var server *ServerError
		if replies[i].Err == nil || !errors.As(replies[i].Err, &server) {
			continue
		}
		switch server.Code {
		case noScript:
			if cmds[i].Script == "" || cmds[i].Args[0] == "EVAL" {
				continue
			}
			cmds[i].Args[0], cmds[i].Args[1] = "EVAL", cmds[i].Script
		case "MOVED", "ASK", "TRYAGAIN":
			soon = false
		default:
			continue
		}
		again = append(again, i)
	}
	return again, soon
}

// sleep is false if ctx is done before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
