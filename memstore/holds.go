package memstore

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// Transactions with ids are rare beside the others and have more rules, so driver.Run decides them, over the same rows. A
// lock of their own is taken first, then those of the shards.

// holds keeps the records of ids and holds. They are never dropped for want of room.
type holds struct {
	mu    sync.Mutex
	byID  map[string]*holdRecord
	wall  agenda // of records that the process's clock wrote
	other agenda // of those that an injected one wrote
}

type holdRecord struct {
	blob         []byte
	expires, due int64
	injected     bool
}

// next is when something is to be done with r.
func (r *holdRecord) next() int64 {
	if r.due != 0 {
		return r.due
	}
	return r.expires
}

// cost is what a record counts for.
func (r *holdRecord) cost(id string) int64 { return int64(len(id)+cap(r.blob)) + holdCost }

const holdCost = 200 // the record, its place in the map and on the agenda

// agenda says when to look at which record, the earliest first. What was put off since is skipped.
type agenda []appointment

type appointment struct {
	at int64
	id string
}

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)        { *a = append(*a, x.(appointment)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = appointment{}
	*a = (*a)[:last]
	return x
}

func (h *holds) agendaOf(injected bool) *agenda {
	if injected {
		return &h.other
	}
	return &h.wall
}

// put keeps rec.
func (h *holds) put(id string, rec *holdRecord) {
	h.byID[id] = rec
	a := h.agendaOf(rec.injected)
	heap.Push(a, appointment{rec.next(), id})
	if len(*a) > 64+2*len(h.byID) { // renewed often: most of it is out of date
		*a = slices.DeleteFunc(*a, func(x appointment) bool { return !h.current(x, rec.injected) })
		heap.Init(a)
	}
}

// current reports whether x is still what is to be done.
func (h *holds) current(x appointment, injected bool) bool {
	rec := h.byID[x.id]
	return rec != nil && rec.injected == injected && rec.next() == x.at
}

// once decides a Txn with an ID.
func (s *Store) once(t *driver.Txn) {
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	tx := holdTx{s: s, t: t, injected: t.Now != 0, must: t.Verb != driver.Take}
	ops := t.Ops
	if rec := s.holds.byID[t.ID]; t.Verb != driver.Take && rec != nil {
		h, _, _ := driver.DecodeHold(t.ID, rec.blob, t.At)
		ops = h.Ops
	}
	var err error
	for range tries {
		var need room
		if need, err = tx.do(ops, func() error {
			err := driver.Run(&tx, t.At, []*driver.Txn{t})
			tx.markRefused()
			return err
		}); need == (room{}) || err != nil {
			break
		}
		err = driver.ErrFull
		if !s.findRoom(t, nil, need) {
			break
		}
		t.Allowed, t.Err = false, nil
		for i := range t.Ops {
			t.Ops[i].Result = driver.Result{}
		}
	}
	switch {
	case errors.Is(err, driver.ErrFull):
		refuseFull(t)
	case err != nil:
		t.Err = err
	}
}

// holdTx is one transaction of driver.Run over the rows. What it saves is kept apart until it is known that there is room.
type holdTx struct {
	s        *Store
	t        *driver.Txn
	injected bool
	must     bool // there has to be room: a hold ends
	states   []savedState
	records  []savedRecord
}

type savedState struct {
	key  driver.Key
	blob []byte
}

type savedRecord struct {
	id  string
	rec *holdRecord
}

// do runs f with the shards of ops locked, and keeps what it saved, or answers what room that needs.
func (tx *holdTx) do(ops []driver.Op, f func() error) (need room, err error) {
	s := tx.s
	tx.states, tx.records = tx.states[:0], tx.records[:0]
	locks := make([]uint32, len(ops))
	for i := range ops {
		locks[i], _ = s.place(&ops[i].Key)
	}
	slices.Sort(locks)
	locks = slices.Compact(locks)
	s.lock(tx.t, locks)
	defer s.unlock(locks)
	if err := f(); err != nil {
		return room{}, err
	}
	need = tx.need()
	if tx.must {
		s.keys.Add(need.keys)
		s.bytes.Add(need.bytes)
		if !s.armed.Load() {
			s.arm()
		}
	} else if need.bytes > 0 && !s.reserve(need) {
		return need, nil
	} else if need.bytes <= 0 {
		s.bytes.Add(need.bytes)
	}
	tx.commit()
	return room{}, nil
}

// markRefused notes on the rows that refused a Take that they must not be dropped for want of room.
func (tx *holdTx) markRefused() {
	t, s := tx.t, tx.s
	if t.Verb != driver.Take || t.Allowed || t.Err != nil {
		return
	}
	for i := range t.Ops {
		if t.Ops[i].Result.Allowed {
			continue
		}
		num, tag := s.place(&t.Ops[i].Key)
		if r := s.find(&s.shards[num], &t.Ops[i].Key, tag); r != nil {
			r[atMeta] |= flagRefused
		}
	}
}

// need is the room of all that was saved, beyond what it replaces.
func (tx *holdTx) need() (need room) {
	s := tx.s
	for i := range tx.states {
		k := &tx.states[i].key
		num, tag := s.place(k)
		if tx.states[i].blob != nil && s.find(&s.shards[num], k, tag) == nil {
			need.keys++
			need.bytes += keyCost(keyLen(k, s.spaces.number(k.Space) == 0))
		}
	}
	for _, r := range tx.records {
		need.bytes += r.rec.cost(r.id)
		if old := s.holds.byID[r.id]; old != nil {
			need.bytes -= old.cost(r.id)
		}
	}
	return need
}

func (tx *holdTx) commit() {
	s := tx.s
	for i := range tx.states {
		tx.keep(&tx.states[i])
	}
	for _, r := range tx.records {
		s.holds.put(r.id, r.rec)
	}
}

func (tx *holdTx) keep(saved *savedState) {
	s := tx.s
	num, tag := s.place(&saved.key)
	sh := &s.shards[num]
	r := s.find(sh, &saved.key, tag)
	var st arith.State
	if saved.blob != nil {
		if st.Decode(saved.blob) != nil {
			return // it was encoded a moment ago
		}
		if r == nil {
			r = s.add(sh, &saved.key, tag)
		}
	}
	if r == nil {
		return
	}
	flags := r.flags() & flagHit
	if tx.injected {
		flags |= flagInjected
	}
	before := sh.usesCost(r)
	s.save(sh, r, &st, flags)
	if len(st.Uses) > 0 {
		s.bytes.Add(sh.usesCost(r) - before)
	}
}

// usesCost is what the uses that r keeps in the shard count for.
func (sh *shard) usesCost(r row) int64 {
	if r.flags()&flagSide == 0 {
		return 0
	}
	return sideCost(sh.more.uses.all[r.side()])
}

// Load is driver.Rows.
func (tx *holdTx) Load(key []byte) ([]byte, error) {
	k, ok := keyOf(key)
	if !ok {
		return nil, driver.ErrCorrupt
	}
	for i := range tx.states {
		if tx.states[i].key == k {
			return tx.states[i].blob, nil
		}
	}
	s := tx.s
	num, tag := s.place(&k)
	sh := &s.shards[num]
	r := s.find(sh, &k, tag)
	if r == nil {
		return nil, nil
	}
	var st arith.State
	var one [1]arith.Use
	sh.get(r, &st, one[:])
	if st.Expires == 0 {
		return nil, nil
	}
	return st.Append(nil), nil
}

// Save is driver.Rows.
func (tx *holdTx) Save(key, blob []byte, _ driver.Micros) error {
	k, ok := keyOf(key)
	if !ok {
		return driver.ErrCorrupt
	}
	for i := range tx.states {
		if tx.states[i].key == k {
			tx.states[i].blob = blob
			return nil
		}
	}
	tx.states = append(tx.states, savedState{k, blob})
	return nil
}

// AddSpace is driver.SpaceRows. Spaces are numbered when a row is made.
func (tx *holdTx) AddSpace(string) error { return nil }

// Spaces is driver.SpaceRows.
func (tx *holdTx) Spaces() ([]string, error) { return tx.s.spaces.list()[1:], nil }

// LoadHold is driver.HoldRows.
func (tx *holdTx) LoadHold(id string) ([]byte, error) {
	for i := len(tx.records) - 1; i >= 0; i-- {
		if tx.records[i].id == id {
			return tx.records[i].rec.blob, nil
		}
	}
	if rec := tx.s.holds.byID[id]; rec != nil {
		return rec.blob, nil
	}
	return nil, nil
}

// SaveHold is driver.HoldRows.
func (tx *holdTx) SaveHold(id string, blob []byte, expires, due driver.Micros) error {
	rec := &holdRecord{slices.Clip(blob), int64(expires), int64(due), tx.injected}
	for i := range tx.records {
		if tx.records[i].id == id {
			tx.records[i].rec = rec
			return nil
		}
	}
	tx.records = append(tx.records, savedRecord{id, rec})
	return nil
}

// keyOf reads what driver.Key.AppendTo wrote.
func keyOf(b []byte) (k driver.Key, ok bool) {
	for _, part := range []*string{&k.Space, &k.Group} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return k, false
		}
		*part = string(b[size : size+int(n)])
		b = b[size+int(n):]
	}
	k.ID = string(b)
	return k, k.ID != ""
}

// sweepHolds does at most most of what is due with records by the two clocks.
func (s *Store) sweepHolds(wall, other int64, most int) (done int) {
	for _, injected := range []bool{false, true} {
		now := wall
		if injected {
			now = other
		}
		for done < most && s.sweepHold(now, injected) {
			done++
		}
	}
	return done
}

// sweepHold does the earliest thing that is due, and reports whether there was one.
func (s *Store) sweepHold(now int64, injected bool) bool {
	h := &s.holds
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.agendaOf(injected)
	for len(*a) > 0 && !h.current((*a)[0], injected) {
		heap.Pop(a)
	}
	if len(*a) == 0 || (*a)[0].at > now {
		return false
	}
	id := heap.Pop(a).(appointment).id
	rec := h.byID[id]
	if rec.due == 0 || rec.expires <= now {
		s.bytes.Add(-rec.cost(id))
		delete(h.byID, id)
		return true
	}
	hold, _, err := driver.DecodeHold(id, rec.blob, driver.Micros(now))
	if err == nil {
		tx := holdTx{s: s, injected: injected, must: true}
		_, err = tx.do(hold.Ops, func() error { return driver.Lapse(&tx, driver.Micros(now), id) })
	}
	if err != nil { // it cannot be: the record is our own. It is not tried for ever.
		rec.due = 0
		h.put(id, rec)
	}
	return true
}

// Holds lists the open holds, as of the process's clock for those that it wrote.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		s.holds.mu.Lock()
		var all []driver.Hold
		for id, rec := range s.holds.byID {
			now := s.clock.now()
			if rec.injected {
				if now = 0; s.injected.floor() != math.MaxInt64 {
					now = driver.Micros(s.injected.floor())
				}
			}
			if h, open, err := driver.DecodeHold(id, rec.blob, now); err == nil && open {
				all = append(all, h)
			}
		}
		s.holds.mu.Unlock()
		for _, h := range all {
			if err := ctx.Err(); err != nil {
				yield(driver.Hold{}, err)
				return
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}
