package sqlitestore

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/ration-go/ration/driver"
)

var (
	// ErrSchema says that the file was made by a later version of this package.
	ErrSchema = errors.New("sqlitestore: the file was made by a later version of this package")

	// ErrNotShared says that the database is one that other connections cannot see: in memory, or a temporary one.
	ErrNotShared = errors.New("sqlitestore: the database is not a file that several connections can share; " +
		"open it by the path of a file, or use memstore for counts in memory")
)

// SQLite's primary result codes, of sqlite3.h.
const (
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
)

// code is the primary result code that err tells, or 0. Drivers agree on the name Code only: with modernc it is a method
// that answers an int, with ncruces one that answers a type of its own, with mattn a field of such a type.
func code(err error) int {
	for ; err != nil; err = errors.Unwrap(err) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, err := range joined.Unwrap() {
				if c := code(err); c != 0 {
					return c
				}
			}
			return 0
		}
		v := reflect.ValueOf(err)
		if m := v.MethodByName("Code"); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
			if v.Kind() == reflect.Pointer && v.IsNil() {
				return 0
			}
			if c := number(m.Call(nil)[0]); c != 0 {
				return c
			}
		}
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Struct {
			if c := number(v.FieldByName("Code")); c != 0 {
				return c
			}
		}
	}
	return 0
}

// number is v without what makes a result code an extended one; 0 if it is not a number.
func number(v reflect.Value) int {
	switch {
	case !v.IsValid():
		return 0
	case v.CanInt():
		return int(v.Int() & 0xff)
	case v.CanUint():
		return int(v.Uint() & 0xff)
	}
	return 0
}

// busy reports whether err says that another connection holds what is needed, and will let it go.
func busy(err error) bool {
	c := code(err)
	return c == codeBusy || c == codeLocked
}

// explain says what err means to somebody who opened a file.
func explain(err error) error {
	text := ""
	switch code(err) {
	case codeReadOnly:
		text = "the file cannot be written"
	case codeFull:
		text = "the disk is full"
	case codeCantOpen:
		text = "the file cannot be opened; is it a folder, or is its folder missing or read-only?"
	case codeNotADB:
		text = "the file is not an SQLite database"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", text, err)
}

// notApplied says that nothing was changed, because of err.
func notApplied(err error) error {
	if err == nil || errors.Is(err, driver.ErrNotApplied) {
		return err
	}
	return fmt.Errorf("sqlitestore: %w: %w", driver.ErrNotApplied, explain(err))
}

// unknown says that err came in the way of learning what became of a commit.
func unknown(err error) error {
	return fmt.Errorf("sqlitestore: the outcome of a commit is unknown: %w", err)
}
