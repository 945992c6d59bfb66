// Package sqlitetest holds the tests and benchmarks of sqlitestore, with two drivers. It is a module of its own, so that
// the drivers stay out of the module graph of those who import sqlitestore.
package sqlitetest
