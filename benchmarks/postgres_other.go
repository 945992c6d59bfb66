//go:build !linux

package main

// postgres has no groups where internal/engines starts no servers.
func postgres() []group { return nil }
