package memstore

import (
	"slices"

	"github.com/ration-go/ration/internal/arith"
)

// The rows of a shard lie in blocks. A block holds rows of one size class; the rows of a class are packed: a row that goes
// away is replaced by the last of its class. So there are no holes, whatever sizes come and go, and memory that a flood
// took is given back when the flood has been swept.
//
// A ref says where a row is: the number of its block, from 1, and 10 bits of offset in words of 8 bytes.

const (
	blockLen  = 8192 // longer only for a single row that is
	offsetLen = 10
)

// class is the rows of one size.
type class struct {
	size   int
	per    int      // rows in a block
	n      int      // rows
	blocks []uint32 // their numbers; all are full but the last, or the last two
}

func (sh *shard) row(ref uint32) row {
	return row(sh.blocks[ref>>offsetLen][ref&(1<<offsetLen-1)*8:])
}

// refOf is where the i-th row of a class is.
func (sh *shard) refOf(num, i int) uint32 {
	cl := &sh.classes[num]
	return cl.blocks[i/cl.per]<<offsetLen | uint32(i%cl.per*cl.size/8)
}

// alloc makes room for a row of n bytes.
func (sh *shard) alloc(n int) (ref uint32, r row) {
	num, size := classOf(n)
	if num >= len(sh.classes) {
		sh.classes = append(sh.classes, make([]class, num+1-len(sh.classes))...)
	}
	cl := &sh.classes[num]
	if cl.size == 0 {
		cl.size, cl.per = size, max(1, blockLen/size)
	}
	switch block := cl.n / cl.per; {
	case block == len(cl.blocks):
		rows := cl.per
		if block == 0 {
			rows = 1
		}
		cl.blocks = append(cl.blocks, sh.newBlock(rows*size))
	case block == 0:
		// The first block starts small and doubles: most shards of a small store hold few rows.
		if b := &sh.blocks[cl.blocks[0]]; (cl.n+1)*size > len(*b) {
			longer := make([]byte, min(2*cl.n, cl.per)*size)
			copy(longer, *b)
			*b = longer
		}
	}
	ref = sh.refOf(num, cl.n)
	cl.n++
	return ref, sh.row(ref)
}

func (sh *shard) newBlock(n int) (num uint32) {
	if last := len(sh.unused) - 1; last >= 0 {
		num, sh.unused = sh.unused[last], sh.unused[:last]
	} else {
		if len(sh.blocks) == 0 {
			sh.blocks = append(sh.blocks, nil) // a ref is not 0
		}
		num = uint32(len(sh.blocks))
		sh.blocks = append(sh.blocks, nil)
	}
	sh.blocks[num] = make([]byte, n)
	return num
}

// shorten takes the last row off a class. An empty block is kept until the one before it is half empty, so that a count
// that goes up and down by one does not make and drop blocks.
func (sh *shard) shorten(num int) {
	cl := &sh.classes[num]
	cl.n--
	for n := len(cl.blocks); n > 0 && (cl.n == 0 || n > 1 && cl.n <= (n-2)*cl.per+cl.per/2); n = len(cl.blocks) {
		sh.blocks[cl.blocks[n-1]] = nil
		sh.unused = append(sh.unused, cl.blocks[n-1])
		cl.blocks = cl.blocks[:n-1]
	}
	if len(cl.blocks) == 1 && cl.n*4*cl.size <= len(sh.blocks[cl.blocks[0]]) {
		b := &sh.blocks[cl.blocks[0]]
		*b = slices.Clone((*b)[:2*cl.n*cl.size])
	}
}

// A use, and what belongs to a list of them: its slice, and the number of it when it is free.
const (
	useCost  = 24
	usesCost = 32
)

// rowCost is what a row counts for: itself, and its share of a table that is two thirds full.
func rowCost(size int) int64 { return int64(size) + 12 }

func sideCost(uses []arith.Use) int64 { return int64(cap(uses))*useCost + usesCost }

// addUses keeps uses and answers their number.
func (sh *shard) addUses(uses []arith.Use) (num uint32) {
	if last := len(sh.useless) - 1; last >= 0 {
		num, sh.useless = sh.useless[last], sh.useless[:last]
		sh.uses[num] = uses
		return num
	}
	sh.uses = append(sh.uses, uses)
	return uint32(len(sh.uses) - 1)
}

// dropUses forgets the uses that r keeps in the shard, if any.
func (sh *shard) dropUses(r row) (freed int64) {
	if r.flags()&flagSide == 0 {
		return 0
	}
	num := r.side()
	freed = sideCost(sh.uses[num])
	sh.uses[num] = nil
	if sh.useless = append(sh.useless, num); len(sh.useless) == len(sh.uses) {
		sh.uses, sh.useless = nil, nil
	}
	return freed
}
