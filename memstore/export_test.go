package memstore

import "fmt"

// Check reports what is wrong with the tables and counts of s, beside its sweeper.
func (s *Store) Check() error {
	var keys, bytes int64
	for num := range s.shards {
		sh := &s.shards[num]
		sh.mu.Lock()
		defer sh.mu.Unlock()
		for width := minWidth; width <= maxWidth; width += widthStep {
			t := sh.table(width)
			if t == nil {
				break
			}
			n := 0
			for at := 0; at < t.end(width); at += width {
				r := t.row(at, width)
				m := r.meta()
				mark := t.marks(width)[at/width]
				if empty(m) {
					if mark != 0 {
						return fmt.Errorf("an empty place at %d of shard %d is marked", at, num)
					}
					continue
				}
				if mark != markOf(m>>tagShift) {
					return fmt.Errorf("the mark of the row at %d of shard %d is wrong", at, num)
				}
				n++
				bytes += rowCost(width)
				if m&longKey != 0 {
					bytes += longCost(len(sh.more.keys.all[r.long()]))
				}
				if m&flagSide != 0 {
					bytes += sideCost(sh.more.uses.all[r.side()])
				}
				for i := t.home(m >> tagShift); i != at/width; i = (i + 1) % int(t.places) {
					if t.marks(width)[i] == 0 {
						return fmt.Errorf("a row at %d of shard %d is not found from its home", at, num)
					}
				}
			}
			if n != int(t.n) {
				return fmt.Errorf("%d rows of width %d in shard %d, counted %d", n, width, num, t.n)
			}
			keys += int64(n)
		}
	}
	if keys != s.keys.Load() || bytes != s.bytes.Load() {
		return fmt.Errorf("%d keys of %d bytes, counted %d and %d", keys, bytes, s.keys.Load(), s.bytes.Load())
	}
	return nil
}
