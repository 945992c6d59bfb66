package storetest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// record is a scope that remembers complaints in place of failing the test: what the suite says of a broken store.
type record struct {
	testing.TB
	name     string
	all      *complaints
	mu       sync.Mutex
	cleanups []func()
	only     func(part string) bool // which parts run; nil: all
}

type complaints struct {
	mu    sync.Mutex
	lines []string
	parts []string // that complained
}

// complain runs the suite, or some parts of it, and answers what it complains of. It stops after the first part that does, or
// after all case files.
func complain(t testing.TB, h Harness, set settings, only func(part string) bool) *complaints {
	r := &record{TB: t, all: &complaints{}, only: only}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.cleanup()
		run(r, h, set)
	}()
	<-done
	return r.all
}

func (r *record) part(name string, _ bool, f func(t scope)) {
	full := strings.TrimPrefix(r.name+"/"+name, "/")
	if r.only != nil && !r.only(full) || r.Failed() && !strings.HasPrefix(full, "cases/") {
		return
	}
	child := &record{TB: r.TB, name: full, all: r.all, only: r.only}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer child.cleanup()
		f(child)
	}()
	<-done
}

func (r *record) cleanup() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

func (r *record) say(text string) {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	r.all.lines = append(r.all.lines, text)
	r.all.parts = append(r.all.parts, r.name)
}

func (r *record) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *record) Failed() bool {
	r.all.mu.Lock()
	defer r.all.mu.Unlock()
	return len(r.all.lines) > 0
}

func (r *record) Name() string                      { return r.name }
func (r *record) Helper()                           {}
func (r *record) Log(...any)                        {}
func (r *record) Logf(string, ...any)               {}
func (r *record) Fail()                             {}
func (r *record) Error(args ...any)                 { r.say(fmt.Sprint(args...)) }
func (r *record) Errorf(format string, args ...any) { r.say(fmt.Sprintf(format, args...)) }

func (r *record) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *record) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func yield() { runtime.Gosched() }
