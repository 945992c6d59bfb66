//go:build !race

package memstore_test

const raced = false
