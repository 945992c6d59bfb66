//go:build race

package arith

// raced says that the race detector watches, which makes pure arithmetic many times slower and finds nothing in it.
const raced = true
