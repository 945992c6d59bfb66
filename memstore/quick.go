package memstore

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/ration-go/ration/internal/arith"
	"github.com/ration-go/ration/internal/instant"
)

// Most calls are a Take from a bucket that exists. The short way for them answers what Apply would, in a third of the
// time: no Txn, State or View, and the row found by one comparison. A test holds the two together.

// metaMask is what one key's rows have in common in their meta: everything but the flags of the state.
const metaMask = ^uint64(0x7f)

// Bucket is for package ration: it makes ready a limit on the keys of space; ok is false if there is no short way for it.
func (s *Store) Bucket(space string, size int64, rate arith.Rate) (b instant.Bucket, ok bool) {
	num := s.spaces.number(space)
	b = instant.Bucket{Size: size, Rate: rate, Space: uint64(num) << spaceShift, Where: maphash.String(s.seed, space) >> 32}
	return b, num != 0 && rate.CanBeQuick()
}

// TakeBucket is for package ration: a Take of cost, at least 1, by the key of no group and this id. Unless known, nothing
// was done; Apply has to be asked. The results are single values so that they stay in registers.
func (s *Store) TakeBucket(b *instant.Bucket, id string, cost int64) (used, retryAfter, resetAt, at int64, allowed, known bool) {
	if len(id) > longest || s.closed.Load() {
		return 0, 0, 0, 0, false, false
	}
	h := maphash.String(s.seed, id)
	sh := &s.shards[h>>s.shift]
	tag := uint64(uint32(h+b.Where)) & (1<<tagLen - 1)
	now := s.clock.now()

	sh.mu.Lock()
	if now < sh.last {
		now = s.clock.now() // see inOrder
	}
	sh.last = now
	if r := sh.quick(tag, b.Space, id); r != nil {
		used, retryAfter, resetAt, allowed, known = r.takeBucket(b, int64(now), cost)
	}
	sh.mu.Unlock()
	return used, retryAfter, resetAt, int64(now), allowed, known
}

// quick finds the row of a key without group, whose space has a number.
func (sh *shard) quick(tag, space uint64, id string) row {
	width := max(minWidth, (headLen+len(id)+widthStep-1)&^(widthStep-1))
	t := &sh.first
	if width > minWidth {
		if t = sh.table(width); t == nil {
			return nil
		}
	}
	if t.places == 0 {
		return nil
	}
	marks, mark, want := t.marks(width), markOf(tag), tag<<tagShift|space|uint64(len(id)+1)<<idShift
	for i := t.home(tag); ; {
		switch marks[i] {
		case mark:
			if r := t.row(i*width, width); r.meta()&metaMask == want && string(r[headLen:headLen+len(id)]) == id {
				return r
			}
		case 0:
			return nil
		}
		if i++; i == len(marks) {
			i = 0
		}
	}
}

func (r row) takeBucket(b *instant.Bucket, now, cost int64) (used, retryAfter, resetAt int64, allowed, known bool) {
	_ = r[headLen-1]
	unit := int64(binary.LittleEndian.Uint64(r[atUnit:]))
	expires := int64(binary.LittleEndian.Uint64(r[atExpires:]))
	if unit != b.Rate.Unit || expires <= now || cost > b.Size {
		return 0, 0, 0, false, false
	}
	level := int64(binary.LittleEndian.Uint64(r[atLevel:]))
	stamp := int64(binary.LittleEndian.Uint64(r[atStamp:]))
	since := int64(binary.LittleEndian.Uint64(r[atSince:]))
	level, stamp, since, expires, used, retryAfter, resetAt, allowed = arith.TakeQuick(level, stamp, since, expires,
		b.Size, b.Rate.Gain, unit, now, cost)
	if !allowed {
		r[atMeta] |= flagRefused
		return used, retryAfter, resetAt, false, true
	}
	flags := uint8(flagLimited)
	if used < b.Size-b.Size/2 {
		flags |= flagLow
	}
	r.put(level, unit, stamp, since, expires, flags)
	return used, 0, resetAt, true, true
}
