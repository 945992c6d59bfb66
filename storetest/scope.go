package storetest

import (
	"sync/atomic"
	"testing"
)

// scope is what a part of the suite reports to: a *testing.T, or in the tests of the suite itself a record of what was
// said about a store that is broken on purpose.
type scope interface {
	testing.TB

	// part runs f as a part of its own; alone: it is done before part returns. Otherwise it runs beside its siblings, and
	// is done before the enclosing part is.
	part(name string, alone bool, f func(t scope))
}

type testScope struct{ *testing.T }

func (s testScope) part(name string, alone bool, f func(t scope)) {
	s.Run(name, func(t *testing.T) {
		if !alone {
			t.Parallel()
		}
		f(testScope{t})
	})
}

// few passes on the first complaints only: what breaks side by side breaks a hundred times.
type few struct {
	scope
	said atomic.Int32
}

func (f *few) Errorf(format string, args ...any) {
	f.Helper()
	if f.said.Add(1) <= 3 {
		f.scope.Errorf(format, args...)
	} else {
		f.Fail()
	}
}
