package pgstore

import (
	"context"
	"iter"

	"github.com/ration-go/ration/driver"
)

// holdsPage is how many holds are listed by one round trip.
const holdsPage = 1000

// Holds is of driver.HoldLister. It reads pages of holds as it goes: one that is opened or ended meanwhile may be among them
// or not. An error is the last that it answers.
func (s *Store) Holds(ctx context.Context) iter.Seq2[driver.Hold, error] {
	return func(yield func(driver.Hold, error) bool) {
		after := []byte{}
		for {
			p, err := s.call(ctx, s.open, after, int64(holdsPage))
			if err != nil {
				yield(driver.Hold{}, err)
				return
			}
			n := 0
			for ; len(p.nums) > 0; n++ {
				h, key, err := p.hold()
				if !yield(h, err) || err != nil {
					return
				}
				after = key
			}
			if n < holdsPage {
				return
			}
		}
	}
}

// hold reads the next hold of a list, and its row key.
func (p *reply) hold() (h driver.Hold, key []byte, err error) {
	head := p.take(4)
	if head == nil || head[3] < 0 || head[3] > driver.MaxOps || int64(len(p.names)) < 2+3*head[3] {
		return h, nil, errReply
	}
	key, id, names := p.names[0], p.names[1], p.names[2:]
	h = driver.Hold{ID: string(id), At: driver.Micros(head[0]), Expires: driver.Micros(head[1]), Return: head[2] != 0, Ops: make([]driver.Op, head[3])}
	for i := range h.Ops {
		nums := p.take(12)
		if nums == nil {
			return h, nil, errReply
		}
		h.Ops[i] = heldOp(nums, names)
		names = names[3:]
	}
	p.names = names
	return h, key, nil
}
