//go:build !race

package arith

const raced = false
