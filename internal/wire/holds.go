package wire

import (
	"encoding/json"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/strictjson"
)

// Bounds of one page of holds.
const (
	MaxHolds     = 1000    // holds
	maxHoldsPage = 4 << 20 // bytes, unless a single hold is longer
)

// HoldsRequest asks for open holds.
type HoldsRequest struct {
	After bytes `json:"after"` // ids that sort after this one, as bytes; absent: from the first
	Max   int64 `json:"max"`   // 0: MaxHolds
}

// HoldsAnswer is a page of open holds by id.
type HoldsAnswer struct {
	Holds []Hold `json:"holds" strict:"required"`
	More  bool   `json:"more,omitempty"` // there are more after the last one
}

// Hold is a driver.Hold.
type Hold struct {
	ID      bytes         `json:"id" strict:"required"`
	At      driver.Micros `json:"at_us,omitempty"`
	Expires driver.Micros `json:"expires_us,omitempty"`
	Return  bool          `json:"return,omitempty"`
	Ops     []Op          `json:"ops,omitempty"`
}

// EncodeHoldsRequest is the body of a request for the holds after an id.
func EncodeHoldsRequest(after string) ([]byte, error) {
	return json.Marshal(struct {
		After bytes `json:"after"`
	}{bytes(after)})
}

// EncodeHolds is holds, sorted by id, as the body of an answer; fewer of them if they are long. more says that there are
// others after them.
func EncodeHolds(holds []driver.Hold, more bool) ([]byte, error) {
	size := 0
	list := make([]json.RawMessage, 0, len(holds))
	for i := range holds {
		h := &holds[i]
		one, err := json.Marshal(Hold{ID: bytes(h.ID), At: h.At, Expires: h.Expires, Return: h.Return, Ops: opsOf(h.Ops)})
		if err != nil {
			return nil, err
		}
		if size += len(one) + 1; size > maxHoldsPage && i > 0 {
			more = true
			break
		}
		list = append(list, one)
	}
	return json.Marshal(struct {
		Holds []json.RawMessage `json:"holds"`
		More  bool              `json:"more,omitempty"`
	}{list, more})
}

// DecodeHolds reads the body of an answer.
func DecodeHolds(body []byte) (holds []driver.Hold, more bool, err error) {
	var a HoldsAnswer
	if err := strictjson.Decode(body, &a); err != nil {
		return nil, false, err
	}
	for i := range a.Holds {
		h := &a.Holds[i]
		holds = append(holds, driver.Hold{ID: string(h.ID), At: h.At, Expires: h.Expires, Return: h.Return, Ops: driverOps(h.Ops)})
	}
	return holds, a.More, nil
}

// MaxSweep is the greatest SweepRequest.Max.
const MaxSweep = 100_000

// SweepRequest asks for what has expired to be removed.
type SweepRequest struct {
	Now driver.Micros `json:"now_us,omitempty"` // 0: the store's clock
	Max int64         `json:"max" strict:"required"`
}

// SweepAnswer says how much was removed.
type SweepAnswer struct {
	Dropped int64 `json:"dropped" strict:"required"`
}
