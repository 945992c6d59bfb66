// Package join lets calls that arrive while the store is busy travel together in the next batch.
//
// There is no timer and no dispatcher: a caller who finds a free place runs its own call, at once and in its own
// goroutine. Who does not waits in a queue; whoever frees the place takes what has come together since.
package join

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ration-go/ration/driver"
)

// ErrQueueFull says that too many callers wait already. Nothing was sent.
var ErrQueueFull = fmt.Errorf("%w: too many calls wait for the store", driver.ErrNotApplied)

// Options of a Joiner; all are required.
type Options struct {
	Apply    func(ctx context.Context, batch []*driver.Txn) error // the store's; ctx has a deadline
	MaxBatch int                                                  // transactions in one batch
	InFlight int                                                  // batches under way at a time
	MaxQueue int                                                  // callers that wait
	Timeout  time.Duration                                        // of a call whose context has no deadline
}

// Joiner is safe for concurrent use.
type Joiner struct {
	o  Options
	mu sync.Mutex
	// queue[head:] wait, in the order in which they came.
	queue  []*waiter
	head   int
	gone   int // of them, callers that have left
	busy   int // places taken
	closed bool
	work   sync.WaitGroup // batches under way
	room   sync.Pool      // of *waiter
}

// waiter is a call in the queue. Once it is sent, it belongs to its batch until done.
type waiter struct {
	t        *driver.Txn
	deadline time.Time   // its context's, or the Timeout's
	timer    *time.Timer // for the Timeout
	sent     bool
	left     bool // its caller has gone
	err      error
	done     chan struct{} // gets one value
}

// New makes a Joiner. It starts nothing.
func New(o Options) *Joiner {
	j := &Joiner{o: o}
	j.room.New = func() any {
		w := &waiter{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		w.timer.Stop()
		return w
	}
	return j
}

// Do has t decided and returns the error of its batch; t.Err is t's own. It returns by the end of ctx. abandoned says that
// t is still in the hands of the store: nobody may read it or use it again.
func (j *Joiner) Do(ctx context.Context, t *driver.Txn) (abandoned bool, err error) {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return false, driver.ErrClosed
	}
	if j.busy < j.o.InFlight && j.waiting() == 0 {
		j.busy++
		j.work.Add(1)
		j.mu.Unlock()
		return false, j.alone(ctx, t)
	}
	if j.waiting() >= j.o.MaxQueue {
		j.mu.Unlock()
		return false, ErrQueueFull
	}
	w := j.room.Get().(*waiter)
	w.t, w.sent, w.left, w.err = t, false, false, nil
	deadline, patient := ctx.Deadline()
	var late <-chan time.Time
	if w.deadline = deadline; !patient {
		w.deadline = time.Now().Add(j.o.Timeout)
		w.timer.Reset(j.o.Timeout)
		late = w.timer.C
	}
	j.queue = append(j.queue, w)
	j.mu.Unlock()

	select {
	case <-w.done:
	case <-ctx.Done():
		return j.leave(w, ctx.Err())
	case <-late:
		return j.leave(w, context.DeadlineExceeded)
	}
	return false, j.finish(w)
}

// finish is the answer of w, which is done.
func (j *Joiner) finish(w *waiter) error {
	err := w.err
	w.t = nil
	w.timer.Stop()
	j.room.Put(w)
	return err
}

// leave takes w, whose time is over, out of the queue. If it was sent already, its batch has it.
func (j *Joiner) leave(w *waiter, why error) (abandoned bool, err error) {
	j.mu.Lock()
	if !w.sent {
		// It stays in its place, empty: the queue may be long.
		w.left, w.t = true, nil
		j.gone++
		j.mu.Unlock()
		return false, fmt.Errorf("%w: %w", driver.ErrNotApplied, why)
	}
	j.mu.Unlock()
	select {
	case <-w.done: // it came at the same moment
		return false, j.finish(w)
	default:
		return true, why
	}
}

// waiting is how many callers wait.
func (j *Joiner) waiting() int { return len(j.queue) - j.head - j.gone }

// alone runs the caller's own call.
func (j *Joiner) alone(ctx context.Context, t *driver.Txn) error {
	defer j.next() // also if the store panics: that is the caller's to see
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.o.Timeout)
		defer cancel()
	}
	return j.o.Apply(ctx, []*driver.Txn{t})
}

// next gives the place that the caller has to those who wait, or frees it.
func (j *Joiner) next() {
	j.mu.Lock()
	batch := j.take()
	if batch == nil {
		j.busy--
		j.mu.Unlock()
		j.work.Done()
		return
	}
	j.mu.Unlock()
	go j.serve(batch)
}

// take is the next batch; nil if nobody waits.
func (j *Joiner) take() (batch []*waiter) {
	if n := min(j.waiting(), j.o.MaxBatch); n > 0 {
		batch = make([]*waiter, 0, n)
	}
	for j.head < len(j.queue) && len(batch) < j.o.MaxBatch {
		w := j.queue[j.head]
		j.queue[j.head] = nil
		j.head++
		if w.left {
			j.gone--
			continue
		}
		w.sent = true
		batch = append(batch, w)
	}
	if j.head == len(j.queue) {
		j.queue, j.head = j.queue[:0], 0
	} else if j.head > 1024 && j.head > len(j.queue)/2 {
		n := copy(j.queue, j.queue[j.head:])
		clear(j.queue[n:])
		j.queue, j.head = j.queue[:n], 0
	}
	if len(batch) == 0 {
		return nil
	}
	return batch
}

// serve runs batches until nobody waits.
func (j *Joiner) serve(batch []*waiter) {
	for batch != nil {
		j.run(batch)
		j.mu.Lock()
		if batch = j.take(); batch == nil {
			j.busy--
		}
		j.mu.Unlock()
	}
	j.work.Done()
}

func (j *Joiner) run(batch []*waiter) {
	// Nobody's context may end the others' call. It lasts as long as the most patient of them.
	deadline := time.Time{}
	for _, w := range batch {
		if w.deadline.After(deadline) {
			deadline = w.deadline
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	g := groupsOf(batch)
	err := j.apply(ctx, g.txns)
	if err == nil {
		if again := g.share(); len(again) > 0 {
			if err := j.apply(ctx, again); err != nil {
				for _, t := range again {
					t.Err = err
				}
			}
		}
	}
	for _, w := range batch {
		w.err = err
		w.done <- struct{}{}
	}
}

// apply is the store's, with panics as errors: a batch is run for others.
func (j *Joiner) apply(ctx context.Context, txns []*driver.Txn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("ration: the store panicked: %v", p)
		}
	}()
	return j.o.Apply(ctx, txns)
}

// Close makes those who wait fail with driver.ErrClosed, waits for the batches under way, and refuses later calls.
func (j *Joiner) Close() {
	j.mu.Lock()
	j.closed = true
	for _, w := range j.queue[j.head:] {
		if !w.left {
			w.sent, w.err = true, driver.ErrClosed
			w.done <- struct{}{}
		}
	}
	j.queue, j.head, j.gone = nil, 0, 0
	j.mu.Unlock()
	j.work.Wait()
}
