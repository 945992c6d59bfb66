package respapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/wire"
	"github.com/ration-go/ration/server/internal/verbs"
)

// throttle is one CL.THROTTLE.
type throttle struct {
	args  [][]byte // behind the command's name
	limit ration.Limit
	cost  int64

	result
}

type result struct {
	decision ration.Decision
	err      error
}

// maxPeriod is the longest period of a rate in seconds, ten years.
const maxPeriod = 87_660 * 60 * 60

// read says what the arguments mean.
func (s *Service) read(args [][]byte) (t throttle, err error) {
	t = throttle{args: args, cost: 1}
	rest := []byte(nil)
	switch len(args) {
	case 4, 5: // key max_burst count period [quantity]
		burst, err := whole(args[1], "max_burst", 0, ration.MaxCount-1)
		if err != nil {
			return t, err
		}
		count, err := whole(args[2], "count", 1, ration.MaxCount)
		if err != nil {
			return t, err
		}
		period, err := whole(args[3], "period", 1, maxPeriod)
		if err != nil {
			return t, err
		}
		t.limit = ration.TokenBucket{Burst: burst + 1, Refill: ration.Per(count, time.Duration(period)*time.Second)}
		if len(args) == 5 {
			rest = args[4]
		}
	case 2, 3: // key limit [quantity]
		if t.limit, err = s.Limit(s.Limits(), ration.KeyOf(string(args[0])), string(args[1]), nil); err != nil {
			return t, err
		}
		if len(args) == 3 {
			rest = args[2]
		}
	default:
		return t, wrong("%s takes key max_burst count period [quantity], or key limit [quantity]", throttleName)
	}
	if rest != nil {
		t.cost, err = whole(rest, "quantity", 0, ration.MaxCount)
	}
	return t, err
}

// whole is a whole number in digits.
func whole(text []byte, name string, least, most int64) (int64, error) {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n < uint64(least) || n > uint64(most) {
		return 0, wrong("%s is not a whole number from %d to %d", name, least, most)
	}
	return int64(n), nil
}

// decide decides all of list. Commands of one key keep their order; what is side by side travels together.
func (s *Service) decide(ctx context.Context, list []*throttle) {
	if len(list) == 1 || s.Info.Instant {
		for _, t := range list {
			t.take(ctx, s)
		}
		return
	}
	at := map[string]int{}
	var keys [][]*throttle
	for _, t := range list {
		key := string(t.args[0])
		i, known := at[key]
		if !known {
			i = len(keys)
			at[key] = i
			keys = append(keys, nil)
		}
		keys[i] = append(keys[i], t)
	}
	s.Each(len(keys), func(i int) {
		for rest := keys[i]; len(rest) > 0; {
			n := 1
			for n < len(rest) && equal(rest[0], rest[n]) {
				n++
			}
			s.decideEqual(ctx, rest[:n])
			rest = rest[n:]
		}
	})
}

func equal(a, b *throttle) bool { return slices.EqualFunc(a.args, b.args, bytes.Equal) }

// decideEqual decides equal commands side by side. Which of them was decided first cannot be told and makes no difference, so
// the first gets what was decided first: as if they had been sent one by one.
func (s *Service) decideEqual(ctx context.Context, run []*throttle) {
	s.Each(len(run), func(i int) { run[i].take(ctx, s) })
	if len(run) == 1 {
		return
	}
	results := make([]result, len(run))
	for i, t := range run {
		results[i] = t.result
	}
	slices.SortStableFunc(results, earlier)
	for i, t := range run {
		t.result = results[i]
	}
}

// earlier compares by when two equal commands of one key were decided, with errors last. In one instant the charged come before
// the refused, and each adds to what is used.
func earlier(a, b result) int {
	if a.err != nil || b.err != nil {
		return truth(a.err != nil) - truth(b.err != nil)
	}
	x, y := &a.decision, &b.decision
	return cmp.Or(x.At.Compare(y.At), truth(!x.Allowed)-truth(!y.Allowed), cmp.Compare(x.Used, y.Used))
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (t *throttle) take(ctx context.Context, s *Service) {
	d, err := s.Take(ctx, nil, ration.KeyOf(string(t.args[0])), t.limit, t.cost)
	t.decision, t.err = d.Decision, err
}

// answer writes the five integers, or the error.
func (t *throttle) answer(ctx context.Context, s *Service, r *replies) {
	d := &t.decision
	switch {
	case t.err != nil:
		s.fail(ctx, r, t.err)
		return
	case d.Degraded && !d.Allowed:
		r.fail(kindUnavailable, "the limit is smaller than usual during an outage; nothing was charged")
		return
	}
	limited, retry := int64(0), int64(-1)
	if !d.Allowed {
		limited = 1
		if !d.Never {
			retry = max(1, seconds(d.RetryAfter))
		}
	}
	r.array(5)
	r.integer(limited)
	r.integer(d.Limit)
	r.integer(d.Remaining)
	r.integer(retry)
	r.integer(seconds(d.ResetAfter))
}

// seconds is d in whole seconds, rounded up: against the caller.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// unavailable are the codes of what is the store's trouble, and not the command's.
var unavailable = []wire.Code{
	wire.CodeUnavailable, wire.CodeOutcomeUnknown, wire.CodeFull, wire.CodeOverloaded, wire.CodeClosed, wire.CodeClock, wire.CodeCorrupt,
}

// kindOf is the first word of the errors of calls that may not be made, as Redis has them where it has them.
var kindOf = map[wire.Code]string{
	codeNoAuth: kindNoAuth, verbs.CodeUnauthorized: kindWrongPass, verbs.CodeExpired: kindWrongPass, verbs.CodeForbidden: kindNoPerm,
	verbs.CodeTooMany: kindUnavailable,
}

// fail answers err, and logs it if it is the store's trouble.
func (s *Service) fail(ctx context.Context, r *replies, err error) {
	code, text := wire.CodeOf(err), ""
	if known, ok := errors.AsType[*verbs.Error](err); ok {
		code, text = known.Code, known.Detail
	} else {
		text = wire.Explain(err)
	}
	if kind, ok := kindOf[code]; ok {
		r.fail(kind, text)
		return
	}
	if slices.Contains(unavailable, code) {
		s.failures.Failed(ctx, code, err, "protocol", "resp")
		r.fail(kindUnavailable, text)
		return
	}
	r.fail(kindError, text)
}
