package sqlitestore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ration-go/ration/driver"
)

type (
	number8     uint8
	withMethod  struct{ c int }
	withType    struct{ c number8 }
	withField   struct{ Code number8 }
	withText    struct{ Code string }
	withAnother struct{}
	withBoth    struct{ withType }
	itself      uint16
)

func (e *withMethod) Error() string      { return "method" }
func (e *withMethod) Code() int          { return e.c }
func (e *withType) Error() string        { return "type" }
func (e *withType) Code() number8        { return e.c }
func (e withField) Error() string        { return "field" }
func (e withText) Error() string         { return "text" }
func (e itself) Error() string           { return "itself" }
func (e itself) Code() number8           { return number8(e) }
func (e *withBoth) ExtendedCode() uint16 { return uint16(e.c) | 3<<8 }
func (e withAnother) Error() string      { return "another" }
func (e withAnother) Code(n int) float64 { return 5 }

func TestCode(t *testing.T) {
	t.Parallel()
	var none *withMethod
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 0},
		{&withMethod{5}, codeBusy},
		{&withMethod{5 | 2<<8}, codeBusy | 2<<8}, // SQLITE_BUSY_SNAPSHOT
		{&withType{13}, codeFull},
		{&withBoth{withType{10}}, codeWrite},
		{itself(codeWrite), codeWrite},
		{errors.Join(itself(codeBusy)), codeBusy},
		{withField{26}, codeNotADB},
		{&withField{26}, codeNotADB},
		{withText{"5"}, 0},
		{withAnother{}, 0},
		{none, 0},
		{fmt.Errorf("a: %w", &withType{6}), codeLocked},
		{errors.Join(errors.New("x"), fmt.Errorf("a: %w", withField{8})), codeReadOnly},
	} {
		if got := code(c.err); got != c.want {
			t.Errorf("code(%#v) = %d, want %d", c.err, got, c.want)
		}
	}
	if !busy(&withMethod{5}) || !busy(&withMethod{5 | 2<<8}) || !busy(withField{6}) || busy(&withMethod{13}) || busy(errors.New("database is locked")) {
		t.Error("busy is of codes 5 and 6 alone")
	}
}

func TestNotApplied(t *testing.T) {
	t.Parallel()
	cause := &withMethod{13}
	err := notApplied(cause)
	if !errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, cause) {
		t.Errorf("%v should be both", err)
	}
	if got := notApplied(driver.ErrClosed); got != driver.ErrClosed {
		t.Errorf("%v says it already, and became %v", driver.ErrClosed, got)
	}
	if notApplied(nil) != nil {
		t.Error("no error became one")
	}
	if errors.Is(unknown(cause), driver.ErrNotApplied) {
		t.Error("an unknown outcome may have been applied")
	}
}

func TestUndone(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		&withMethod{13}: true, &withMethod{5}: true, &withMethod{codeWrite}: true, &withBoth{withType{10}}: true,
		&withMethod{codeIO | 4<<8}: false, // SQLITE_IOERR_FSYNC
		&withMethod{codeIO}:        false, errors.New("x"): false,
	} {
		if undone(err) != want {
			t.Errorf("undone of code %d should be %v", code(err), want)
		}
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	for n := range 3*mostRows + 2 {
		next, sizes := 0, map[int]bool{}
		err := chunks(n, func(from, to int) error {
			if from != next || to <= from || to-from > mostRows {
				t.Fatalf("of %d, a piece from %d to %d after %d", n, from, to, next)
			}
			next = to
			sizes[to-from] = true
			return nil
		})
		if err != nil || next != n {
			t.Fatalf("of %d, the pieces end at %d (%v)", n, next, err)
		}
		for size := range sizes {
			if size&(size-1) != 0 {
				t.Errorf("of %d, a piece has %d rows: each size is a statement to prepare", n, size)
			}
		}
	}
}
