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

// SQLite's result codes, of sqlite3.h. The low byte is the primary code; the rest says more.
const (
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIO       = 10
	codeWrite    = codeIO | 3<<8
	codeFull     = 13
	codeCantOpen = 14
	codeNotADB   = 26
)

// code is the result code that err tells, or 0: the extended one, if it does. Drivers agree on names only: with modernc
// Code is a method that answers an int, with ncruces Code and ExtendedCode are methods that answer types of their own, with
// mattn they are fields of such types.
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
		if v.Kind() == reflect.Pointer && v.IsNil() {
			continue
		}
		// The names are constants in the calls, or the linker would keep every method of the program.
		c := called(v.MethodByName("ExtendedCode"))
		if c == 0 {
			c = called(v.MethodByName("Code"))
		}
		if own := number(v); c != 0 && primary(own) == primary(c) {
			c = own // a type of ncruces is the code itself
		}
		if v = reflect.Indirect(v); c == 0 && v.Kind() == reflect.Struct {
			if c = number(v.FieldByName("ExtendedCode")); c == 0 {
				c = number(v.FieldByName("Code"))
			}
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func called(m reflect.Value) int {
	if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != 1 {
		return 0
	}
	return number(m.Call(nil)[0])
}

func number(v reflect.Value) int {
	switch {
	case !v.IsValid():
		return 0
	case v.CanInt():
		return int(v.Int())
	case v.CanUint():
		return int(v.Uint())
	}
	return 0
}

// primary is the part of a result code that says what is so.
func primary(code int) int { return code & 0xff }

// busy reports whether err says that another connection holds what is needed, and will let it go.
func busy(err error) bool {
	c := primary(code(err))
	return c == codeBusy || c == codeLocked
}

// explain says what err means to somebody who opened a file.
func explain(err error) error {
	text, c := "", code(err)
	switch primary(c) {
	case codeReadOnly:
		text = "the file cannot be written"
	case codeFull:
		text = "the disk is full"
	case codeCantOpen:
		text = "the file cannot be opened; is it a folder, or is its folder missing or read-only?"
	case codeNotADB:
		text = "the file is not an SQLite database"
	}
	if c == codeWrite {
		text = "the disk took no more; it may be full" // ncruces 0.37 says so of a full one
	}
	if text == "" {
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

// undone reports whether a COMMIT that failed with err surely changed nothing. Its record in the WAL is the last thing it
// writes: if that was not reached or not written, nobody will ever see the transaction. If it was, but not brought to the
// disk, a crash might show.
func undone(err error) bool {
	c := code(err)
	return c == codeWrite || primary(c) == codeFull || busy(err)
}
