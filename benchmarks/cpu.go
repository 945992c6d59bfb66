//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTimes is how long this program has computed so far, and the servers that it started.
func cpuTimes() (own, servers time.Duration) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, 0
	}
	own = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return own, 0
	}
	type process struct {
		parent string
		time   time.Duration
	}
	all := map[string]process{}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// After the name, in parentheses, come the state, the parent and much else.
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 15 {
			continue
		}
		const tick = 10 * time.Millisecond
		p := process{parent: fields[1]}
		for _, f := range fields[11:15] { // user and system, of itself and of what it waited for
			n, _ := strconv.ParseInt(f, 10, 64)
			p.time += time.Duration(n) * tick
		}
		all[strings.Split(name, "/")[2]] = p
	}
	self := strconv.Itoa(os.Getpid())
	for _, p := range all {
		for of := p; of.parent != "" && of.parent != "0"; of = all[of.parent] {
			if of.parent == self {
				servers += p.time
				break
			}
		}
	}
	return own, servers
}
