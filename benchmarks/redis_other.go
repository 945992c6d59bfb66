//go:build !linux

package main

import "time"

// redisGroups are none where internal/engines starts no servers.
func redisGroups() []group { return nil }

// direct, growth, https and fairness need servers, too.
func direct() []group { return nil }

func growth(int) []group { return nil }

func https() []group { return nil }

func fairness(time.Duration) []group { return nil }
