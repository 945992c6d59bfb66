package redisscript

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
	Args []string
	Key  string // decides where on a cluster it goes; "": to any node
	Keys int    // a script's: so many of Args, from the fourth, are its keys
	Sure bool   // the client is to make sure that enough replicas have it, if it was told to
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
