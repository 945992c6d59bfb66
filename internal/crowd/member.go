package crowd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
)

const memberEnv = "RATION_CROWD_MEMBER"

// task is what a process is told.
type task struct {
	Where string
	Name  string
	Seed  uint64
	TTL   time.Duration // of reservations
	Short time.Duration // of those that are not going to be ended
	Turns time.Month    // of the budgets
}

// IsMember reports whether this process is one of a crowd, and so has to call Member and nothing else.
func IsMember() bool { return os.Getenv(memberEnv) != "" }

// Member is the life of one process of a crowd, until its standard input ends. It answers the exit code.
func Member(open Open) int {
	err := member(open)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		return 1
	}
	return 0
}

func member(open Open) error {
	var todo task
	if err := json.Unmarshal([]byte(os.Getenv(memberEnv)), &todo); err != nil {
		return err
	}
	store, err := open(todo.Where)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is all that counts
		close(stop)
	}()
	return work(store, todo, os.Stdout, stop)
}

// work runs the callers of one process, and closes store.
func work(store driver.Store, todo task, out io.Writer, stop <-chan struct{}) (err error) {
	l := ration.New(store, &ration.Options{Timeout: 30 * time.Second})
	defer func() { err = errors.Join(err, l.Close()) }()
	tell := newTeller(out)
	var wg sync.WaitGroup
	failures := make([]error, callers)
	for i := range failures {
		wg.Go(func() {
			c := caller{task: todo, l: l, tell: tell.tell, rng: rand.New(rand.NewPCG(todo.Seed, uint64(i)))}
			for n := 0; failures[i] == nil; n++ {
				select {
				case <-stop:
					return
				default:
					failures[i] = c.once(fmt.Sprintf("%s-%d-%d", todo.Name, i, n))
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// caller makes one reservation after the other.
type caller struct {
	task
	l    *ration.Limiter
	tell func(event) error // an error ends the caller
	rng  *rand.Rand
}

// once reserves, works and ends it, or not.
func (c *caller) once(id string) error {
	costs, small := c.estimate()
	forgotten := small && c.rng.IntN(20) == 0
	opts := ration.ReserveOptions{ID: id, TTL: c.TTL, RefundOnExpiry: c.rng.IntN(2) == 0}
	if forgotten {
		opts.TTL = c.Short
	}
	if err := c.tell(event{Act: reserving, ID: id, Return: opts.RefundOnExpiry, Amounts: costs}); err != nil {
		return err
	}
	sent := time.Now()
	r, err := c.l.Reserve(context.Background(), &opts, charges(costs, c.Turns)...)
	switch {
	case err != nil && errors.Is(err, ration.ErrOutcomeUnknown):
		return c.tell(event{Act: unknown, ID: id})
	case err != nil && !errors.Is(err, driver.ErrNotApplied):
		return c.tell(event{Act: wrong, ID: id, Text: fmt.Sprintf("a reservation failed: %v", err)})
	case err != nil || !r.Allowed:
		c.pause()
		return c.tell(event{Act: refused, ID: id})
	}
	for _, d := range r.Each {
		if d.Used > room {
			return c.tell(event{Act: wrong, ID: id, Text: fmt.Sprintf("admitted with %d of %d used", d.Used, int64(room))})
		}
	}
	if err := c.tell(event{Act: held, ID: id, Full: r.ID()}); err != nil {
		return err
	}
	c.pause()
	if c.rng.IntN(8) == 0 {
		soFar := c.used(costs, small)
		sent = time.Now()
		ok, err := c.done(event{Act: reporting, ID: id, Amounts: soFar}, reported, func(ctx context.Context) error {
			_, err := r.Progress(ctx, soFar[:]...)
			return err
		})
		if err != nil || !ok {
			return err
		}
		c.pause()
	}
	switch {
	case forgotten:
		return nil
	case c.rng.IntN(10) < 3:
		_, err = c.done(event{Act: cancelling, ID: id}, ended, func(ctx context.Context) error {
			err := r.Cancel(ctx)
			if err == nil && time.Since(sent) > opts.TTL*3/4 {
				return fmt.Errorf("%w: it may have expired before", ration.ErrOutcomeUnknown)
			}
			return err
		})
	default:
		actual := c.used(costs, small)
		_, err = c.done(event{Act: settling, ID: id, Amounts: actual}, ended, func(ctx context.Context) error { return r.Settle(ctx, actual[:]...) })
	}
	return err
}

// done tells what is going to be done, does it, and tells how it went; ok if well.
func (c *caller) done(what event, well act, do func(context.Context) error) (ok bool, err error) {
	if err := c.tell(what); err != nil {
		return false, err
	}
	answer := event{Act: well, ID: what.ID}
	err = do(context.Background())
	switch {
	case err == nil:
	case errors.Is(err, ration.ErrNoReservation), errors.Is(err, ration.ErrEnded) && what.Act != reporting:
		answer.Act, answer.Text = wrong, fmt.Sprintf("%s a reservation failed: %v", what.Act, err)
	default:
		answer.Act = unknown
	}
	return err == nil, c.tell(answer)
}

// estimate is what to reserve: mostly much, of which little will be used, else a small part.
func (c *caller) estimate() (costs amounts, small bool) {
	small = c.rng.IntN(4) == 0
	for i := range costs {
		if small {
			costs[i] = 1 + c.rng.Int64N(1000)
		} else {
			costs[i] = leastPart + c.rng.Int64N(mostPart-leastPart)
		}
	}
	return costs, small
}

// used is a random part of costs; of small ones sometimes more than all.
func (c *caller) used(costs amounts, small bool) (n amounts) {
	for i := range n {
		if n[i] = c.rng.Int64N(min(costs[i], 1000) + 1); small && c.rng.IntN(3) == 0 {
			n[i] = costs[i] + 1 + c.rng.Int64N(50)
		}
	}
	return n
}

// pause is what a caller works, or waits until it tries again.
func (c *caller) pause() {
	timer := time.NewTimer(time.Duration(c.rng.IntN(40)) * time.Millisecond)
	<-timer.C
}
