package memstore

import (
	"sync"
	"sync/atomic"
)

// maxSpaces bounds the table of spaces. They are few; if a program invents them, the rows of the later ones spell them
// out.
const maxSpaces = 4096

// spaces numbers Key.Space from 1, for good: rows name them so. It is read without a lock.
type spaces struct {
	all atomic.Pointer[[]string] // by number
	mu  sync.RWMutex
	num map[string]uint16
}

func (sp *spaces) init() {
	sp.all.Store(&[]string{""})
	sp.num = make(map[string]uint16)
}

func (sp *spaces) list() []string { return *sp.all.Load() }

// number answers the number of a space, a new one if need be; 0: there are no more.
func (sp *spaces) number(space string) uint16 {
	for i, known := range sp.list() {
		if i > 0 && known == space {
			return uint16(i) // mostly after one look, as the strings are one and the same
		}
		if i == 8 {
			break
		}
	}
	sp.mu.RLock()
	num := sp.num[space]
	sp.mu.RUnlock()
	if num != 0 || len(sp.list()) == maxSpaces {
		return num
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	all := sp.list()
	if num = sp.num[space]; num != 0 || len(all) == maxSpaces {
		return num
	}
	num = uint16(len(all))
	all = append(all, space)
	sp.num[space] = num
	sp.all.Store(&all)
	return num
}
