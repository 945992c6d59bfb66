//go:build !race

package calendar

const raced = false
