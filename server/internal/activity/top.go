package activity

import (
	"slices"
	"time"

	"github.com/ration-go/ration"
)

// Bounds of a list of keys.
const (
	// places is how many keys a shard counts in a list. A key that has more than one in so many of the shard's decisions is
	// surely among them.
	places = 32
	// turn is how long a list is counted until the next one begins; it is shown for as long again.
	turn = 5 * time.Minute
)

// window counts keys over the last one or two turns.
type window struct {
	now, before sketch
	number      int64 // of the turn that is counted
}

func (w *window) add(since time.Duration, id uint64, row *row, key ration.Key) {
	w.advance(since)
	w.now.add(id, row, key)
}

// advance begins the turn of a moment.
func (w *window) advance(since time.Duration) {
	number := int64(since / turn)
	switch number - w.number {
	case 0:
		return
	case 1:
		w.before = w.now
	default:
		w.before = sketch{}
	}
	w.now, w.number = sketch{}, number
}

func (w *window) forget(key ration.Key) {
	w.now.forget(key)
	w.before.forget(key)
}

// sketch is the stream summary of Metwally, Agrawal and El Abbadi (Space-Saving, 2005): a key that is not among those counted
// takes the place of the one with the least count, and inherits it as its possible error. A count is never too small, and too
// large by at most that error, which is at most one in so many of all decisions as there are places.
type sketch struct {
	filled  int
	ids     [places]uint64
	counted [places]int64
	entries [places]entry
}

type entry struct {
	row  *row
	key  ration.Key
	over int64 // by how much the count may be too large
}

func (s *sketch) add(id uint64, row *row, key ration.Key) {
	least := 0
	for i, other := range s.ids[:s.filled] {
		if other == id {
			s.counted[i]++
			return
		}
		if s.counted[i] < s.counted[least] {
			least = i
		}
	}
	if s.filled < places {
		least = s.filled
		s.filled++
	}
	over := s.counted[least]
	s.ids[least] = id
	s.counted[least] = over + 1
	s.entries[least] = entry{row, key, over}
}

// least is how often a key may have been counted that is not here.
func (s *sketch) least() int64 {
	if s.filled < places {
		return 0
	}
	return slices.Min(s.counted[:])
}

// forget takes a key out. The place is empty again, so keys that come later are counted from 0, which is right for them or too
// small by less than the error that was.
func (s *sketch) forget(key ration.Key) {
	for i := 0; i < s.filled; {
		if s.entries[i].key != key {
			i++
			continue
		}
		s.filled--
		last := s.filled
		s.ids[i], s.counted[i], s.entries[i] = s.ids[last], s.counted[last], s.entries[last]
		s.ids[last], s.counted[last], s.entries[last] = 0, 0, entry{}
	}
}
