package simulate

// timeline counts decisions over time, in bins of one width. When they do not reach, the width grows to the next in a
// ladder, and bins are added up.
type timeline struct {
	width, start int64 // µs; start is a multiple of width
	rung         int
	from, to     int64 // the bin in use
	at           int
	used         int // bins
	bins         [maxBins]bin
}

type bin struct{ allowed, refused int64 }

const maxBins = 180

// ladder is widths in seconds, each a multiple of the one before.
var ladder = [...]int64{1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86400, 7 * 86400, 28 * 86400, 364 * 86400, 3640 * 86400}

const second = 1_000_000

// add counts a decision. Time never goes back.
func (t *timeline) add(now int64, allowed bool) {
	if now >= t.to {
		t.move(now)
	}
	if allowed {
		t.bins[t.at].allowed++
	} else {
		t.bins[t.at].refused++
	}
}

func (t *timeline) move(now int64) {
	if t.width == 0 {
		t.width = ladder[0] * second
		t.start = now - now%t.width
	}
	for (now-t.start)/t.width >= maxBins && t.rung+1 < len(ladder) {
		t.fold()
	}
	t.at = int(min((now-t.start)/t.width, maxBins-1))
	t.from = t.start + int64(t.at)*t.width
	t.to = t.from + t.width
	t.used = max(t.used, t.at+1)
}

func (t *timeline) fold() {
	t.rung++
	width := ladder[t.rung] * second
	start := t.start - t.start%width
	shift := (t.start - start) / t.width
	old := t.bins
	t.bins = [maxBins]bin{}
	for i := range t.used {
		b := &t.bins[(int64(i)+shift)*t.width/width]
		b.allowed += old[i].allowed
		b.refused += old[i].refused
	}
	if t.used > 0 {
		t.used = int((int64(t.used-1)+shift)*t.width/width) + 1
	}
	t.width, t.start = width, start
}
