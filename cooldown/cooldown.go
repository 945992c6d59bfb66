// Package cooldown guards commands: gates that pass or refuse, for bots and other programs where a person calls a command.
//
//	spam := cooldown.New(limiter, ration.SlidingWindow{Limit: 1, Window: 5 * time.Second}, nil)
//	err := cooldown.Run(ctx, cooldown.Call{Command: "award", User: id}, func(ctx context.Context) error { … }, spam)
//	if no, ok := errors.AsType[*cooldown.Refusal](err); ok {
//		reply(no.Message)
//	}
//
// A gate does not look first and charge later, so of two calls at one moment one passes: it reserves, and its End settles
// if the command ran or cancels if it did not.
package cooldown

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ration-go/ration"
)

// Call is one use of a command. An empty field is absent; Command is required.
type Call struct{ Command, User, Channel, Server string }

// A Gate passes, or returns a *Refusal; another error means that it could not tell. What it takes it takes now, and the
// End that it returns has to be called once. A gate that took nothing may return a nil End.
type Gate func(ctx context.Context, c Call) (End, error)

// An End ends what its gate took. err is nil if the command ran, a *Refusal if a later gate refused, else why the command
// did not run or failed.
type End func(ctx context.Context, err error) error

// A Refusal is the answer of a gate that does not pass.
type Refusal struct {
	Message string    // for the person who called
	Notice  any       // in its place, if Options.Notice made one
	RetryAt time.Time // zero: there is no such time
}

// Error is the message.
func (r *Refusal) Error() string {
	if r.Message == "" {
		return "cooldown: refused"
	}
	return r.Message
}

// Run runs command if all gates pass, in their order, and ends what they took: settled if command returns nil, else given
// back (but see Options.KeepSpent), also if it panics. It returns the first refusal or error, or what command returned,
// joined with errors of the ends.
//
// However long command runs, what gates of New took stays held until it returns. If it holds a slot of a Concurrency limit
// and that is lost, because the store was not there for the length of a lease or somebody reset it, the context of command
// ends.
func Run(ctx context.Context, c Call, command func(context.Context) error, gates ...Gate) (err error) {
	var k keeper
	end, err := And(gates...)(context.WithValue(ctx, keeperKey{}, &k), c)
	if err != nil {
		return err
	}
	ran := false
	alive, stop := k.keep(ctx)
	defer func() {
		stop()
		if !ran {
			err = errPanicked // the panic goes on; the caller never sees this
		}
		err = errors.Join(err, end(ctx, err))
	}()
	err = command(alive)
	ran = true
	return err
}

var errPanicked = errors.New("cooldown: the command or a gate panicked")

// And passes if all gates pass. If one does not, those before it get back what they took.
func And(gates ...Gate) Gate {
	return func(ctx context.Context, c Call) (End, error) {
		var ends []End
		endAll := func(ctx context.Context, err error) (failed error) {
			for i := len(ends) - 1; i >= 0; i-- {
				failed = errors.Join(failed, ends[i](ctx, err))
			}
			return failed
		}
		if c.Command == "" {
			return nil, errors.New("cooldown: the call names no command")
		}
		passed := false
		defer func() {
			if !passed && len(ends) > 0 { // a gate panicked
				_ = endAll(ctx, errPanicked)
			}
		}()
		for _, gate := range gates {
			end, err := gate(ctx, c)
			if err != nil {
				passed = true
				if failed := endAll(ctx, err); failed != nil {
					err = errors.Join(err, failed)
				}
				return nil, err
			}
			if end != nil {
				ends = append(ends, end)
			}
		}
		passed = true
		return endAll, nil
	}
}

// Or passes with the first gate that passes. Only a *Refusal makes it ask the next; if all refuse, it returns the refusal
// that ends soonest. Or of no gates refuses.
func Or(gates ...Gate) Gate {
	return func(ctx context.Context, c Call) (End, error) {
		soonest := &Refusal{}
		for i, gate := range gates {
			end, err := gate(ctx, c)
			no, refused := errors.AsType[*Refusal](err)
			if !refused {
				return end, err
			}
			if i == 0 || soonest.RetryAt.IsZero() || !no.RetryAt.IsZero() && no.RetryAt.Before(soonest.RetryAt) {
				soonest = no
			}
		}
		return nil, soonest
	}
}

// ServerOnly refuses calls outside a server, such as direct messages.
func ServerOnly(message string) Gate {
	return func(_ context.Context, c Call) (End, error) {
		if c.Server == "" {
			return nil, &Refusal{Message: message}
		}
		return nil, nil
	}
}

// Scope says whose uses a cooldown counts.
type Scope uint8

// The scopes.
const (
	PerUser Scope = iota
	PerChannel
	PerServer
)

// Options of New; nil is the zero value.
type Options struct {
	Per       Scope                         // default PerUser
	Key       func(Call) (ration.Key, bool) // instead of Per; false: absent
	Share     bool                          // calls whose scope is absent count together, per command; default: they are refused
	KeepSpent bool                          // a command that failed stays spent
	Absent    string                        // message when the scope is absent; default: a plain one
	Message   func(d ration.Decision) string
	Notice    func(d ration.Decision) any // in place of Message: whatever the bot's library sends
}

// New is a gate that takes 1 of limit, which may be of any kind. It holds that for ten minutes, or as long as Run runs the
// command: whoever calls the gate without Run has to end it by then, or a command that fails stays spent. Cooldowns count per command and scope, not per New: their
// settings are not part of what is counted, so they can change. Two cooldowns of one kind for one command and scope are one
// count; make them Rules of different names to keep them apart.
//
// Cooldowns count under rule names that begin with "cooldown", which no limit of the program's own should have; a Rule's own
// name is 50 bytes at most.
func New(l *ration.Limiter, limit ration.Limit, opts *Options) Gate {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	rule, ok := limit.(ration.Rule)
	if !ok {
		rule = ration.Rule{Limit: limit}
	}
	prefix := "cooldown"
	if o.Key != nil {
		prefix = "cooldown-key" // never a key that New itself makes
	}
	if rule.Name != "" {
		prefix += "."
	}
	rule.Name = prefix + rule.Name
	_, slots := rule.Limit.(ration.Concurrency)
	return func(ctx context.Context, c Call) (End, error) {
		key, ok := o.key(c)
		if !ok {
			message := o.Absent
			if message == "" {
				message = "This command does not work here."
			}
			return nil, &Refusal{Message: message}
		}
		r, err := l.Reserve(ctx, nil, key.Charge(rule, 1))
		if err != nil {
			return nil, fmt.Errorf("cooldown: %w", err)
		}
		if !r.Allowed {
			return nil, o.refusal(r.Decision)
		}
		k, _ := ctx.Value(keeperKey{}).(*keeper)
		k.add(r, slots)
		return func(ctx context.Context, err error) error {
			k.drop(r)
			_, refused := errors.AsType[*Refusal](err)
			if err == nil || o.KeepSpent && !refused {
				return r.Settle(ctx)
			}
			return r.Cancel(ctx)
		}, nil
	}
}

// key is whose uses are counted; false if there is nobody.
func (o *Options) key(c Call) (ration.Key, bool) {
	scope, id := "user", c.User
	switch {
	case o.Key != nil:
		key, ok := o.Key(c)
		if !ok && o.Share {
			return ration.KeyOf("shared", c.Command), true
		}
		return key, ok
	case o.Per == PerChannel:
		scope, id = "channel", c.Channel
	case o.Per == PerServer:
		scope, id = "server", c.Server
	}
	switch {
	case id != "":
		return ration.KeyOf(scope, c.Command, id), true
	case o.Share:
		return ration.KeyOf(scope, c.Command), true
	}
	return ration.Key{}, false
}

func (o *Options) refusal(d ration.Decision) *Refusal {
	r := &Refusal{Message: "This command is switched off."}
	if !d.Never {
		r.RetryAt = d.RetryAt()
		r.Message = "Try again " + Timestamp(r.RetryAt) + "."
	}
	if o.Message != nil {
		r.Message = o.Message(d)
	}
	if o.Notice != nil {
		r.Notice = o.Notice(d)
	}
	return r
}

// Timestamp is t in the form that Discord shows relative to now, "<t:1767225600:R>", rounded up to the second.
func Timestamp(t time.Time) string {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return "<t:" + strconv.FormatInt(s, 10) + ":R>"
}
