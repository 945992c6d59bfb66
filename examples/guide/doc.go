// Package guide holds the Go code of docs/guide.md, docs/stores.md and README.md, compiled and run. A test checks that
// what stands there stands here too.
package guide
