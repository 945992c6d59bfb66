// Package join lets calls that arrive while the store is busy travel together in the next batch.
//
// There is no timer and no dispatcher: a caller who finds a free place runs its own call, at once and in its own
// goroutine. Who does not waits in a queue; whoever frees the place takes what has come together since.
//
// Batches that are under way at a time share no key: the store would decide them one after the other, each with what its
// share of the callers asks, where one batch could have had all of them.
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

	// Applied, if not nil, is told of each Apply before its callers have their answer: how many transactions of how many
	// ops there were, and the contexts of those who travelled together; nil if ctx is the only caller's own.
	Applied func(ctx context.Context, txns, ops int, callers []context.Context, start time.Time, err error)
}

// Joiner is safe for concurrent use.
type Joiner struct {
	o  Options
	mu sync.Mutex
	// queue[head:] wait, in the order in which they came.
	queue  []*waiter
	head   int
	gone   int                  // of them, callers that have left
	busy   int                  // places taken
	lanes  map[driver.Key]*lane // of the keys that wait or are under way; nil if there is one place
	closed bool
	work   sync.WaitGroup // batches under way
	room   sync.Pool      // of *waiter
}

// lane is one key, which is under way in one batch at most.
type lane struct {
	key   driver.Key
	users int // calls of it that wait, and one for that it is under way
	busy  bool
}

// waiter is a call in the queue. Once it is sent, it belongs to its batch until done.
type waiter struct {
	t        *driver.Txn
	aside    []*driver.Txn   // sent with it
	ctx      context.Context // the caller's, for Options.Applied
	lane     *lane           // nil: it may be sent at any time
	deadline time.Time       // its context's, or the Timeout's
	timer    *time.Timer     // for the Timeout
	sent     bool
	left     bool // its caller has gone
	err      error
	done     chan struct{} // gets one value
}

// New makes a Joiner. It starts nothing.
func New(o Options) *Joiner {
	j := &Joiner{o: o}
	if o.InFlight > 1 {
		j.lanes = make(map[driver.Key]*lane)
	}
	j.room.New = func() any {
		w := &waiter{done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		w.timer.Stop()
		return w
	}
	return j
}

// Do has t decided and returns the error of its batch; t.Err is t's own. It returns by the end of ctx. abandoned says that
// t is still in the hands of the store: nobody may read it or use it again. aside is sent in the same batch, as it is: it waits
// for nothing else, and nothing of it is joined with calls of others.
func (j *Joiner) Do(ctx context.Context, t *driver.Txn, aside ...*driver.Txn) (abandoned bool, err error) {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return false, driver.ErrClosed
	}
	// As long as there is a free place, whoever waits does so for a key that is under way.
	l := j.enter(t)
	if j.busy < j.o.InFlight && (l == nil || !l.busy) {
		if l != nil {
			l.busy = true
		}
		j.busy++
		j.work.Add(1)
		j.mu.Unlock()
		return false, j.alone(ctx, t, aside, l)
	}
	if j.waiting() >= j.o.MaxQueue {
		j.exit(l, false)
		j.mu.Unlock()
		return false, ErrQueueFull
	}
	w := j.room.Get().(*waiter)
	w.t, w.aside, w.lane, w.sent, w.left, w.err = t, aside, l, false, false, nil
	deadline, patient := ctx.Deadline()
	var late <-chan time.Time
	if w.deadline = deadline; !patient {
		w.deadline = time.Now().Add(j.o.Timeout)
		w.timer.Reset(j.o.Timeout)
		late = w.timer.C
	}
	if j.o.Applied != nil {
		w.ctx = ctx
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

// enter finds the lane of t, for one more user. It is nil for what does not wait for others of its key.
func (j *Joiner) enter(t *driver.Txn) *lane {
	if j.lanes == nil || !joinable(t) || t.Verb == driver.Peek {
		return nil
	}
	key := t.Ops[0].Key
	l := j.lanes[key]
	if l == nil {
		l = &lane{key: key}
		j.lanes[key] = l
	}
	l.users++
	return l
}

// exit is the end of one use of l: that it was under way, or that a call of it waits.
func (j *Joiner) exit(l *lane, wasBusy bool) {
	if l == nil {
		return
	}
	if wasBusy {
		l.busy = false
	}
	if l.users--; l.users == 0 {
		delete(j.lanes, l.key)
	}
}

// finish is the answer of w, which is done.
func (j *Joiner) finish(w *waiter) error {
	err := w.err
	w.t, w.aside, w.lane, w.ctx = nil, nil, nil, nil
	w.timer.Stop()
	j.room.Put(w)
	return err
}

// leave takes w, whose time is over, out of the queue. If it was sent already, its batch has it.
func (j *Joiner) leave(w *waiter, why error) (abandoned bool, err error) {
	j.mu.Lock()
	if !w.sent {
		// It stays in its place, empty: the queue may be long.
		j.exit(w.lane, false)
		w.left, w.t, w.aside, w.lane = true, nil, nil, nil
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

// Waiting is how many callers wait in the queue at this moment. It is for tests.
func (j *Joiner) Waiting() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.waiting()
}

// waiting is how many callers wait.
func (j *Joiner) waiting() int { return len(j.queue) - j.head - j.gone }

// alone runs the caller's own call.
func (j *Joiner) alone(ctx context.Context, t *driver.Txn, aside []*driver.Txn, l *lane) error {
	defer j.next(l) // also if the store panics: that is the caller's to see
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.o.Timeout)
		defer cancel()
	}
	return j.call(ctx, append([]*driver.Txn{t}, aside...), nil)
}

// call makes one call to the store.
func (j *Joiner) call(ctx context.Context, txns []*driver.Txn, callers []context.Context) error {
	if j.o.Applied == nil {
		return j.o.Apply(ctx, txns)
	}
	ops := 0
	for _, t := range txns {
		ops += len(t.Ops)
	}
	start := time.Now()
	err := j.o.Apply(ctx, txns)
	j.o.Applied(ctx, len(txns), ops, callers, start, err)
	return err
}

// Load is how many calls wait, and how many batches are under way.
func (j *Joiner) Load() (waiting, underWay int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.waiting(), j.busy
}

// batch is what is under way together.
type batch struct {
	calls []*waiter
	lanes []*lane
}

// next gives the place that the caller has to those who wait, or frees it.
func (j *Joiner) next(l *lane) {
	j.mu.Lock()
	j.exit(l, true)
	b := j.take()
	if b.calls == nil {
		j.busy--
		j.mu.Unlock()
		j.work.Done()
		return
	}
	j.fill()
	j.mu.Unlock()
	go j.serve(b)
}

// fill takes places that are free for those who wait and need not: what has ended may have held more than one batch.
func (j *Joiner) fill() {
	for j.busy < j.o.InFlight {
		b := j.take()
		if b.calls == nil {
			return
		}
		j.busy++
		j.work.Add(1)
		go j.serve(b)
	}
}

// take is the next batch; none if nobody waits who may be sent.
func (j *Joiner) take() (b batch) {
	most := min(j.waiting(), j.o.MaxBatch)
	if most == 0 {
		return b
	}
	from := j.head
	at, stay, size := from, from, 0
fill:
	for ; at < len(j.queue) && len(b.calls) < most; at++ {
		w := j.queue[at]
		switch {
		case w.left:
			j.gone--
		case w.lane != nil && w.lane.busy:
			j.queue[stay] = w
			stay++
		case b.calls != nil && size+1+len(w.aside) > j.o.MaxBatch:
			break fill // it goes with the next batch
		default:
			if b.calls == nil {
				b.calls = make([]*waiter, 0, most)
			}
			w.sent = true
			b.calls = append(b.calls, w)
			size += 1 + len(w.aside)
		}
	}
	// Those that stay come before the rest.
	j.head = at - (stay - from)
	copy(j.queue[j.head:at], j.queue[from:stay])
	clear(j.queue[from:j.head])
	if j.head == len(j.queue) {
		j.queue, j.head = j.queue[:0], 0
	} else if j.head > 1024 && j.head > len(j.queue)/2 {
		n := copy(j.queue, j.queue[j.head:])
		clear(j.queue[n:])
		j.queue, j.head = j.queue[:n], 0
	}
	for _, w := range b.calls {
		if w.lane == nil {
			continue
		}
		if !w.lane.busy {
			w.lane.busy = true
			w.lane.users++
			b.lanes = append(b.lanes, w.lane)
		}
		j.exit(w.lane, false)
		w.lane = nil
	}
	return b
}

// serve runs batches until nobody waits.
func (j *Joiner) serve(b batch) {
	for b.calls != nil {
		j.run(b.calls)
		j.mu.Lock()
		for _, l := range b.lanes {
			j.exit(l, true)
		}
		if b = j.take(); b.calls == nil {
			j.busy--
		} else {
			j.fill()
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
	for _, w := range batch {
		g.txns = append(g.txns, w.aside...)
	}
	var callers []context.Context
	if j.o.Applied != nil {
		callers = make([]context.Context, len(batch))
		for i, w := range batch {
			callers[i] = w.ctx
		}
	}
	err := j.apply(ctx, g.txns, callers)
	if err == nil {
		if again := g.share(); len(again) > 0 {
			if err := j.apply(ctx, again, callers); err != nil {
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
func (j *Joiner) apply(ctx context.Context, txns []*driver.Txn, callers []context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("ration: the store panicked: %v", p)
		}
	}()
	return j.call(ctx, txns, callers)
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
	clear(j.lanes)
	j.mu.Unlock()
	j.work.Wait()
}
