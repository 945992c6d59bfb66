//go:build !linux

package main

// rpcs has no groups where internal/engines starts no servers.
func rpcs() []group { return nil }

func beServer() bool { return false }
