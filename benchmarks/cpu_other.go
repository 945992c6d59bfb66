//go:build !linux

package main

import "time"

// cpuTimes are not known here.
func cpuTimes() (own, servers time.Duration) { return 0, 0 }
