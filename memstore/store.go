package memstore

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-go/ration/driver"
)

// Options are the bounds of a Store. The zero Options, like nil, is all defaults.
type Options struct {
	// MaxKeys is the greatest number of states that are kept; default 1 million. Zero and less mean the default.
	MaxKeys int

	// MaxBytes bounds the memory of the states, in bytes; default 256 MiB. Zero and less mean the default. Rows, keys,
	// index and the uses of sliding windows count; the room in which Go's allocator and half-filled blocks round up does
	// not. An eighth is set aside for the growth of windows that are kept already: new keys are refused before.
	MaxBytes int64

	// SweepEvery is the time between two steps of the removal of ended states; default one second. Negative: nothing is
	// removed until Sweep is called or a new key needs the room.
	SweepEvery time.Duration
}

// Store is a driver.Store in the memory of the process. Its methods are safe for concurrent use. Make one with New.
type Store struct {
	seed     maphash.Seed
	shards   []shard
	shift    uint // a hash >> shift is the number of a shard
	maxKeys  int64
	maxBytes int64
	every    time.Duration
	clock    processClock
	spaces   spaces

	closed atomic.Bool
	armed  atomic.Bool // a timer runs, or none ever shall
	_      [64]byte    // what changes with every new key stays away from what every call reads

	keys     atomic.Int64
	bytes    atomic.Int64
	injected line

	scratch sync.Pool // *scratch
	holds   holds

	sweeps, swept atomic.Int64

	sweeping sync.Mutex // one sweep at a time
	cursor   int        // the shard at which the next sweep goes on

	timing sync.Mutex
	timer  *time.Timer

	documents documents
}

const (
	defaultKeys  = 1_000_000
	defaultBytes = 256 << 20
	defaultEvery = time.Second

	// keysPerShard bounds the work that is done under one lock: growing a table, forgetting a key. Fewer keys would make so
	// many shards that these themselves do not stay in a near cache.
	keysPerShard  = 1024
	minShards     = 256     // as long as there are a few keys for each
	bytesPerShard = 1 << 17 // what a shard's tables round up is a small part of that
	maxShards     = 1 << 16
)

// New makes an empty store. opts may be nil. It starts nothing that runs while the store is empty; Close ends the rest.
func New(opts *Options) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxKeys <= 0 {
		o.MaxKeys = defaultKeys
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultBytes
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = defaultEvery
	}
	n := int64(max(o.MaxKeys/keysPerShard, min(o.MaxKeys/4, minShards)))
	n = max(min(n, o.MaxBytes/bytesPerShard, maxShards), 1)
	log := bits.Len(uint(n - 1))
	s := &Store{
		seed:     maphash.MakeSeed(),
		shards:   make([]shard, 1<<log),
		shift:    uint(64 - log),
		maxKeys:  int64(o.MaxKeys),
		maxBytes: o.MaxBytes,
		every:    o.SweepEvery,
	}
	s.clock.init()
	s.spaces.init()
	s.holds.byID = make(map[string]*holdRecord)
	s.injected.low.Store(math.MaxInt64)
	s.scratch.New = func() any { return new(scratch) }
	s.armed.Store(o.SweepEvery < 0)
	return s
}

// Info describes the store: of scope Process, not durable.
func (s *Store) Info() driver.Info {
	return driver.Info{Kind: "memory", Scope: driver.Process, Caps: driver.CapsRun | driver.CapsHolds, MaxBatch: 1, Instant: true}
}

// Apply decides batch, one Txn after the other. It never waits and takes no notice of ctx. After Close it decides nothing
// and answers driver.ErrClosed; a Txn that finds no room has driver.ErrFull in its Err.
func (s *Store) Apply(_ context.Context, batch []*driver.Txn) error {
	if s.closed.Load() {
		return driver.ErrClosed
	}
	var now driver.Micros
	for _, t := range batch {
		if t.Now != 0 {
			t.At = t.Now
			s.injected.saw(int64(t.Now))
		} else {
			if now == 0 {
				now = s.clock.now()
			}
			t.At = now
		}
		switch {
		case t.ID != "" || t.Verb > driver.Forget:
			s.once(t)
		case t.Verb <= driver.Hit && t.Verb != 0 && len(t.Ops) == 1 && t.Ops[0].Kind != driver.Slots:
			s.single(t)
		default:
			s.list(t)
		}
	}
	return nil
}

// Close ends the store's background work; a sweep that is under way has ended when it returns. It may be called more than
// once, and beside Apply. It never fails.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.timing.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timing.Unlock()
	s.sweeping.Lock()
	defer s.sweeping.Unlock()
	return nil
}

// Len is the number of states that are kept, ended ones that were not removed yet among them.
func (s *Store) Len() int { return int(s.keys.Load()) }

// Bytes is the memory of these states, as Options.MaxBytes counts it.
func (s *Store) Bytes() int64 { return s.bytes.Load() }

// place answers where the state of k is: the shard, and the tag of its row there. All states of one group and id are in
// one shard, which is what Forget needs.
func (s *Store) place(k *driver.Key) (shard, tag uint32) {
	h := maphash.String(s.seed, k.ID)
	if k.Group != "" {
		// Exchanging id and group makes a difference.
		h = bits.RotateLeft64(h, 23)*0x9e3779b97f4a7c15 ^ maphash.String(s.seed, k.Group)
	}
	return uint32(h >> s.shift), uint32(h+maphash.String(s.seed, k.Space)>>32) & (1<<tagLen - 1)
}
