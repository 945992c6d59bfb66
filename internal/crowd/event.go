package crowd

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// What a caller says: first what it is going to do, then how that went.
type act string

const (
	reserving  act = "reserving"
	refused    act = "refused" // or surely not applied
	held       act = "held"
	reporting  act = "reporting"
	reported   act = "reported"
	settling   act = "settling"
	cancelling act = "cancelling"
	ended      act = "ended"
	unknown    act = "unknown" // how it went; nothing more is done with this reservation
	wrong      act = "wrong"   // something that must not be; Text says what
)

// event is one line of a process.
type event struct {
	Act     act
	At      int64  // Unix time in ns: before it is done, or after the answer
	ID      string // as the caller chose it
	Full    string `json:",omitempty"` // held: as it is found by
	Return  bool   `json:",omitempty"` // reserving: goes back when it expires
	Amounts amounts
	Text    string `json:",omitempty"`
}

// teller writes events. Its methods are safe for concurrent use.
type teller struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func newTeller(w io.Writer) *teller { return &teller{enc: json.NewEncoder(w)} }

// tell writes one line in one piece, so that a killed process leaves no half of one.
func (t *teller) tell(e event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.At = time.Now().UnixNano()
	return t.enc.Encode(e)
}
