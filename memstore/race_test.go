//go:build race

package memstore_test

// raced says that the race detector watches, which makes a loop of one goroutine many times slower and finds nothing in it.
const raced = true
