package memstore

import "slices"

// A table holds rows of one width in open addressing with linear probing: the place of a row is the first free one from
// its home on. It has at least one empty place.
type table struct {
	rows   []byte
	n      int32
	places int32
}

// A table is filled to at most 9/11 and grows by an eighth, so that it is about three quarters full.
func (t *table) tooFull() bool { return int64(t.n+1)*11 > int64(t.places)*9 }

func (t *table) home(tag uint64, width int) int { return int(tag*uint64(t.places)>>tagLen) * width }

func (t *table) row(at, width int) row { return row(t.rows[at : at+width : at+width]) }

// add answers an empty place for a row of tag, which must be named at once.
func (t *table) add(tag uint32, width int) row {
	if t.tooFull() {
		t.resize(int(t.places)+max(int(t.places)/8, 4), width)
	}
	t.n++
	return t.row(t.free(uint64(tag), width), width)
}

func (t *table) free(tag uint64, width int) (at int) {
	at = t.home(tag, width)
	for !empty(row(t.rows[at:]).meta()) {
		if at += width; at == len(t.rows) {
			at = 0
		}
	}
	return at
}

func (t *table) resize(places, width int) {
	old := t.rows
	rows := slices.Grow([]byte(nil), places*width)
	t.places = int32(cap(rows) / width) // all that the allocator gives
	t.rows = rows[:int(t.places)*width]
	for at := 0; at < len(old); at += width {
		if m := row(old[at:]).meta(); !empty(m) {
			copy(t.rows[t.free(m>>tagShift, width):], old[at:at+width])
		}
	}
}

// remove empties a place, and moves up the rows behind it that would not be found any more. What is now at this place was
// behind it, around the end of the table perhaps.
func (t *table) remove(at, width int) {
	hole := at
	for i := at; ; {
		if i += width; i == len(t.rows) {
			i = 0
		}
		m := row(t.rows[i:]).meta()
		if empty(m) {
			break
		}
		if t.way(t.home(m>>tagShift, width), i) >= t.way(hole, i) {
			copy(t.rows[hole:hole+width], t.rows[i:i+width])
			hole = i
		}
	}
	clear(t.rows[hole : hole+width])
	t.n--
}

// way is how far it is from one place on to another.
func (t *table) way(from, to int) int {
	if to < from {
		to += len(t.rows)
	}
	return to - from
}

// fit gives back room after removals. Places change.
func (t *table) fit(width int) {
	switch {
	case t.n == 0:
		*t = table{}
	case t.places > 8 && t.n*5 < t.places*2:
		t.resize(int(t.n)*3/2+1, width)
	}
}
