package respapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/access"
	"github.com/ration-go/ration/server/internal/verbs"
)

// codeNoAuth is of a command before AUTH.
const codeNoAuth = wire.Code("no_auth")

// connected finds out who is at the other end, as far as the connection itself says; false if there is nobody to speak with.
func (c *conn) connected(ctx context.Context) bool {
	c.from = access.Address(c.net.RemoteAddr().String())
	var state *tls.ConnectionState
	if secure, ok := c.net.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(ctx, helloTimeout)
		defer cancel()
		if secure.HandshakeContext(ctx) != nil {
			return false
		}
		_ = c.net.SetDeadline(time.Time{}) // if it fails, so does reading
		s := secure.ConnectionState()
		state = &s
	}
	if guard := c.service.opts.Guard; guard != nil {
		c.caller = guard.Connected(state, c.from)
	}
	return true
}

// recheck forgets a caller whose token is gone or has expired.
func (c *conn) recheck() {
	if c.caller == nil {
		return
	}
	still, err := c.service.opts.Guard.Still(c.caller)
	if err != nil {
		still = c.service.opts.Guard.Nobody(c.from)
	}
	c.caller = still
}

// leave does what a command says of who is calling, and makes its error what one may not do before that.
func (c *conn) leave(one *step) {
	if one.err == nil {
		if given, user, token := credentials(one); given {
			err := c.logIn(user, token)
			one.err, one.ends = verbs.Refused(err), tooOften(err)
			return
		}
	}
	if !c.caller.Unknown() || one.spec != nil && one.spec.name == "QUIT" {
		return
	}
	one.err = verbs.Problem(codeNoAuth, "say who is calling by AUTH and a token")
	if err := c.service.opts.Guard.Missing(c.from); tooOften(err) {
		one.err, one.ends = verbs.Refused(err), true
	}
}

func tooOften(err error) bool {
	r, ok := errors.AsType[*access.Refusal](err)
	return ok && r.Status == http.StatusTooManyRequests
}

// credentials are those in AUTH [user] token, and in HELLO protocol … AUTH user token ….
func credentials(one *step) (given bool, user, token []byte) {
	args := one.args[1:]
	switch one.spec.name {
	case "AUTH":
		if len(args) == 1 {
			return true, nil, args[0]
		}
		return true, args[0], args[1]
	case "HELLO":
		for i := 1; i < len(args); i++ {
			switch option := strings.ToUpper(string(args[i])); {
			case option == "AUTH" && len(args) > i+2:
				return true, args[i+1], args[i+2]
			case option == "SETNAME":
				i++
			}
		}
	}
	return false, nil, nil
}

// logIn makes the holder of token the caller. The error is a *access.Refusal, or says that there are no passwords.
func (c *conn) logIn(user, token []byte) error {
	guard := c.service.opts.Guard
	if guard == nil || !guard.On() {
		return wrong("this server has no passwords; connect without one")
	}
	caller, err := guard.Identify(string(token), c.from)
	if err != nil {
		return err
	}
	if name := string(user); name != "" && name != "default" && name != caller.Name {
		return verbs.Problem(verbs.CodeUnauthorized, "the user is default, or the name of the token")
	}
	c.caller = caller
	return nil
}

// mayThrottle is an error if the caller may not have this limited, or asks too often.
func (c *conn) mayThrottle(args [][]byte) error {
	if c.caller == nil {
		return nil
	}
	name := "" // of no configured limit
	if text := string(args[1]); len(args) < 4 && !strings.Contains(text, " ") {
		name = text
	}
	if err := c.caller.Allow(access.Take, name); err != nil {
		return verbs.Refused(err)
	}
	return verbs.Refused(c.service.opts.Guard.Count(c.caller, 1))
}
