package activity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/internal/wire"
)

// Options of a Recorder. The zero value, and a nil pointer, are the defaults.
type Options struct {
	// Secret makes fingerprints; those of two servers with one secret are the same. Default: a random one for this process.
	Secret []byte
	// ClearKeys has snapshots show the keys themselves beside their fingerprints.
	ClearKeys bool
}

// Recorder counts decisions. It is safe for concurrent use; a nil *Recorder records nothing.
type Recorder struct {
	start  time.Time
	seed   maphash.Seed
	secret []byte
	clear  bool

	known  atomic.Pointer[names]
	shards [shardCount]shard

	memo struct {
		sync.Mutex
		made time.Time
		last *Snapshot
	}
}

// names are those that have a row of their own.
type names map[string]bool

// Bounds of what is remembered.
const (
	shardCount = 16
	// Seconds is how long a limit's counts are kept by the second.
	Seconds = 60
	// maxRows bounds the limits that are counted apart; what is beyond shares the row without a name.
	maxRows = 1000
)

// shard holds what concerns some of the keys. One lock for all of it costs less than many atomic numbers, and what a snapshot
// shows is of one moment.
type shard struct {
	mu      sync.Mutex
	rows    map[string]*row
	refused window
	used    window
	recent  recent
	_       [64]byte // the next shard's lock is on another cache line
}

// New makes a Recorder for limits of these names. Decisions on others are counted together.
func New(limits []string, opts *Options) *Recorder {
	if opts == nil {
		opts = new(Options)
	}
	r := &Recorder{start: time.Now(), seed: maphash.MakeSeed(), clear: opts.ClearKeys}
	base := opts.Secret
	if base == nil {
		base = make([]byte, sha256.Size)
		_, _ = rand.Read(base) // never fails
	}
	// A key of its own: a fingerprint tells nothing of what the store holds under the same secret.
	mac := hmac.New(sha256.New, base)
	mac.Write([]byte("ration activity fingerprint"))
	r.secret = mac.Sum(nil)
	r.SetLimits(limits)
	for i := range r.shards {
		r.shards[i].rows = map[string]*row{}
	}
	return r
}

// SetLimits replaces the names of the limits that are counted apart. At most 1000 are, the first by name.
func (r *Recorder) SetLimits(limits []string) {
	if r == nil {
		return
	}
	sorted := slices.Sorted(slices.Values(limits))
	known := names{"": true}
	for _, name := range sorted {
		if len(known) < maxRows {
			known[name] = true
		}
	}
	r.known.Store(&known)
}

// outcome is how a decision came out.
type outcome uint8

const (
	allowed outcome = iota
	refused
	failed // nobody could tell
	outcomes
)

// Decided is told of a decision to charge cost of limit to key. It is quick: a hash and a lock.
func (r *Recorder) Decided(ctx context.Context, limit ration.Limit, key ration.Key, cost int64, d *ration.Decision, err error) {
	if r == nil {
		return
	}
	name := ""
	if rule, ok := limit.(ration.Rule); ok {
		name = rule.Name
	}
	r.decided(ctx, name, key, cost, d, err)
}

func (r *Recorder) decided(ctx context.Context, name string, key ration.Key, cost int64, d *ration.Decision, err error) {
	if err == nil && cost == 0 {
		return // asked, and not charged
	}
	how := allowed
	switch {
	case err != nil:
		if !couldNotTell(ctx, err) {
			return
		}
		how = failed
	case !d.Allowed:
		how = refused
	}
	since := time.Since(r.start)
	hash := maphash.Comparable(r.seed, key)
	s := &r.shards[hash>>60]
	s.mu.Lock()
	defer s.mu.Unlock()
	row := s.row(r, name)
	row.count(since, how, err == nil && d.Degraded)
	switch how {
	case allowed:
		s.used.add(since, hash^row.hash, row, key)
	case refused:
		s.refused.add(since, hash^row.hash, row, key)
	}
	if err != nil {
		d = nil
	}
	s.recent.add(since, row, key, cost, how, d)
}

// couldNotTell reports whether err is the store's trouble, and not that of the request or of a caller who has gone.
func couldNotTell(ctx context.Context, err error) bool {
	if errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	switch wire.CodeOf(err) {
	case wire.CodeUnavailable, wire.CodeOutcomeUnknown, wire.CodeFull, wire.CodeOverloaded, wire.CodeClock, wire.CodeCorrupt:
		return true
	}
	return false
}

// Forget drops what is remembered of a key. What it added to the counts of limits stays.
func (r *Recorder) Forget(key ration.Key) {
	if r == nil {
		return
	}
	s := &r.shards[maphash.Comparable(r.seed, key)>>60]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused.forget(key)
	s.used.forget(key)
	s.recent.forget(key)
	r.memo.Lock()
	defer r.memo.Unlock()
	r.memo.last = nil
}

// row is what one shard has counted of one limit.
type row struct {
	name    string
	hash    uint64
	total   counts
	seconds [Seconds]second
}

type counts struct {
	how      [outcomes]int64
	degraded int64
}

type second struct {
	since    uint32 // the start; which second of the ring's it is
	how      [outcomes]uint32
	degraded uint32
}

func (s *shard) row(r *Recorder, name string) *row {
	if found, ok := s.rows[name]; ok {
		return found
	}
	if known := *r.known.Load(); !known[name] || len(s.rows) >= maxRows {
		name = ""
	}
	found, ok := s.rows[name]
	if !ok {
		found = &row{name: name, hash: maphash.String(r.seed, name)}
		s.rows[name] = found
	}
	return found
}

func (w *row) count(since time.Duration, how outcome, degraded bool) {
	w.total.how[how]++
	now := uint32(since / time.Second)
	at := &w.seconds[now%Seconds]
	if at.since != now {
		*at = second{since: now}
	}
	at.how[how]++
	if degraded {
		w.total.degraded++
		at.degraded++
	}
}
