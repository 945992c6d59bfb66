package memstore

import "slices"

// A table holds rows of one width in open addressing with linear probing: the place of a row is the first free one from
// its home on. It has at least one empty place.
//
// Behind the rows stands a mark for each place: 0 if it is empty, else a few bits of the tag of its row. Looking for a row goes along
// the marks, which are near each other, and fetches hardly any row but the right one.
type table struct {
	data   []byte
	n      int32
	places int32
}

// A table is filled to at most 7/8 and grows by an eighth, so that it is about four fifths full.
func (t *table) tooFull() bool { return int64(t.n+1)*8 > int64(t.places)*7 }

// end is where the rows end, and the marks begin.
func (t *table) end(width int) int { return int(t.places) * width }

func (t *table) marks(width int) []byte { return t.data[t.end(width):] }

func markOf(tag uint64) byte { return max(byte(tag), 1) }

// home is the place that a row should have.
func (t *table) home(tag uint64) int { return int(tag * uint64(t.places) >> tagLen) }

func (t *table) row(at, width int) row { return row(t.data[at : at+width : at+width]) }

// add answers an empty place for a row of tag, which must be named at once.
func (t *table) add(tag uint32, width int) row {
	if t.tooFull() {
		t.resize(int(t.places)+max(int(t.places)/8, 4), width)
	}
	t.n++
	return t.row(t.take(uint64(tag), width), width)
}

// take marks a free place for a row of tag.
func (t *table) take(tag uint64, width int) (at int) {
	marks, i := t.marks(width), t.home(tag)
	for marks[i] != 0 {
		if i++; i == len(marks) {
			i = 0
		}
	}
	marks[i] = markOf(tag)
	return i * width
}

func (t *table) resize(places, width int) {
	old, end := t.data, t.end(width)
	data := slices.Grow([]byte(nil), places*(width+1))
	t.places = int32(cap(data) / (width + 1)) // all that the allocator gives
	t.data = data[:int(t.places)*(width+1)]
	for at := 0; at < end; at += width {
		if m := row(old[at:]).meta(); !empty(m) {
			copy(t.data[t.take(m>>tagShift, width):], old[at:at+width])
		}
	}
}

// remove empties a place, and moves up the rows behind it that would not be found any more. What is now at this place was
// behind it, around the end of the table perhaps.
func (t *table) remove(at, width int) {
	marks := t.marks(width)
	hole := at / width
	for i := hole; ; {
		if i++; i == len(marks) {
			i = 0
		}
		if marks[i] == 0 {
			break
		}
		from := t.row(i*width, width)
		if t.way(t.home(from.meta()>>tagShift), i) >= t.way(hole, i) {
			copy(t.row(hole*width, width), from)
			marks[hole] = marks[i]
			hole = i
		}
	}
	clear(t.row(hole*width, width))
	marks[hole] = 0
	t.n--
}

// way is how far it is from one place on to another.
func (t *table) way(from, to int) int {
	if to < from {
		to += int(t.places)
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
