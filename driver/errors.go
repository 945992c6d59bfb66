package driver

// ErrNotApplied says that surely nothing was changed or charged. A store wraps it where it knows. The other errors of
// this package imply it: errors.Is(ErrFull, ErrNotApplied) holds.
var ErrNotApplied error = sentinel("ration: nothing was changed")

var (
	ErrFull       error = sentinel("ration: the store has no room for another key, and nothing in it may be forgotten")
	ErrOverflow   error = sentinel("ration: the count would pass 2^53 − 1")
	ErrCrossGroup error = sentinel("ration: keys decided together must be of one group on this store; see Key.In")
	ErrEnded      error = sentinel("ration: the reservation has already ended in another way")
	ErrClock      error = sentinel("ration: the store's clock is outside the periods that were sent")
	ErrIDReused   error = sentinel("ration: the id was used for another request")
	ErrNoHold     error = sentinel("ration: no reservation of this id is known")
	ErrAmounts    error = sentinel("ration: give one amount for each charge of the reservation; one for all only if all were equal")
	ErrCorrupt    error = sentinel("ration: what the store holds under this key was not written by this version of ration")
	// ErrNoDocuments is of a store that could keep Documents, and lacks the place for them.
	ErrNoDocuments error = sentinel("ration: the store has no place for documents")
	ErrClosed      error = sentinel("ration: closed")
)

type sentinel string

func (e sentinel) Error() string { return string(e) }

func (e sentinel) Is(target error) bool { return target == ErrNotApplied }
