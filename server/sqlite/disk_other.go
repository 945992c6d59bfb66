//go:build !linux

package sqlite

// diskOf is known on Linux only.
func diskOf(string) (d disk, ok bool) { return d, false }
