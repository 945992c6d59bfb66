package sqlitestore

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// grace is how long a caller whose context is done still waits for a commit that is under way: an answer is better than
// "unknown", and a commit lasts about a millisecond.
const grace = 50 * time.Millisecond

// job is one piece of work for a worker. Its caller may leave before it is done: what is shared with the caller may be
// touched only between claim and release.
type job struct {
	ctx  context.Context
	stop <-chan struct{} // closed when the store closes
	work func(c *conn, j *job) error
	done chan struct{}
	err  error // valid once done is closed

	mu      sync.Mutex
	left    bool // the caller is gone
	decided bool // there may be something to commit
}

// claim reports whether the caller is still there; then it stays until release.
func (j *job) claim() bool {
	j.mu.Lock()
	if j.left {
		j.mu.Unlock()
		return false
	}
	return true
}

// release says whether something will be committed.
func (j *job) release(changes bool) {
	j.decided = changes
	j.mu.Unlock()
}

// leave is the caller's way out when its context is done.
func (j *job) leave() error {
	j.mu.Lock()
	decided := j.decided
	j.left = true
	j.mu.Unlock()
	if !decided {
		select {
		case <-j.done:
			return j.err
		default:
			return notApplied(j.ctx.Err())
		}
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-j.done:
		return j.err
	case <-t.C:
		return unknown(j.ctx.Err())
	}
}

// worker owns one connection.
type worker struct {
	db     *sql.DB
	writer bool
	sync   Synchronous
	jobs   <-chan *job
	stop   <-chan struct{}
	conn   *conn
}

func (w *worker) loop() {
	for {
		select {
		case j := <-w.jobs:
			j.err = w.do(j)
			close(j.done)
		case <-w.stop:
			w.drop()
			return
		}
	}
}

func (w *worker) do(j *job) error {
	if err := j.ctx.Err(); err != nil {
		return notApplied(err)
	}
	if w.conn == nil {
		err := retry(j.ctx, w.stop, func() (err error) {
			w.conn, err = openConn(j.ctx, w.db, w.writer, w.sync)
			return err
		})
		if err != nil {
			return notApplied(err)
		}
	}
	err := j.work(w.conn, j)
	if w.conn.broken {
		w.drop() // closing rolls back; a new connection costs little
	}
	return err
}

func (w *worker) drop() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}
