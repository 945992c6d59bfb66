//go:build race

package calendar

// raced says that the race detector watches, which makes pure computing many times slower and finds nothing in it.
const raced = true
