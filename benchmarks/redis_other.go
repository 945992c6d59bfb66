//go:build !linux

package main

// redisGroups are none where internal/engines starts no servers.
func redisGroups() []group { return nil }
