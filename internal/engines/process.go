//go:build linux

package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a child of this process, with its own children.
type process struct {
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // then: how
}

// launch starts cmd so that it gets orphan when this process ends, by SIGKILL too.
func launch(cmd *exec.Cmd, orphan syscall.Signal) (*process, error) {
	cmd.SysProcAttr.Pdeathsig = orphan
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal is sent when the thread that started the child ends: keep that thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends p and all its descendants by SIGKILL, and returns when they are gone.
func (p *process) kill() error {
	if !p.running() {
		return nil
	}
	all := p.signal(syscall.SIGSTOP) // from now on there are no new ones
	for _, pid := range all {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	return p.gone(all)
}

// stop sends sig to p itself, and returns when p and its descendants are gone. What outlives wait is killed, which is an error.
func (p *process) stop(sig syscall.Signal, wait time.Duration) error {
	if !p.running() {
		return nil
	}
	all := family(p.pid)
	syscall.Kill(p.pid, sig)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.gone(all)
	case <-timer.C:
		return errors.Join(fmt.Errorf("still running %v after %v", wait, sig), p.kill())
	}
}

// signal sends sig to p and all its descendants, those that appear meanwhile too, and answers who got it.
func (p *process) signal(sig syscall.Signal) (all []int) {
	for {
		more := false
		for _, pid := range family(p.pid) {
			if !slices.Contains(all, pid) {
				more = true
				all = append(all, pid)
				syscall.Kill(pid, sig)
			}
		}
		if !more {
			return all
		}
	}
}

// gone waits until p and the other processes have ended. PostgreSQL's children outlive it for a moment.
func (p *process) gone(all []int) error {
	<-p.done
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return poll(ctx, func() error {
		for _, pid := range all {
			if _, state, ok := parentOf(pid); ok && state != "Z" {
				return fmt.Errorf("process %d is still there", pid)
			}
		}
		return nil
	})
}

// family is pid and its descendants.
func family(pid int) []int {
	all := []int{pid}
	stats, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return all
	}
	children := map[int][]int{}
	for _, dir := range stats {
		if child, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			if parent, _, ok := parentOf(child); ok {
				children[parent] = append(children[parent], child)
			}
		}
	}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

func parentOf(pid int) (parent int, state string, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", false
	}
	// The second field is the name in brackets, and may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0, "", false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, fields[0], err == nil
}

// poll calls f until it answers nil, or ctx is done; then it answers f's last error. It asks more and more seldom: a server
// that is not ready yet may make a process for each who asks.
func poll(ctx context.Context, f func() error) error {
	wait := 10 * time.Millisecond
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-timer.C:
		}
		wait = min(wait*3/2, 250*time.Millisecond)
		timer.Reset(wait)
	}
}

// otherUser is who runs what refuses to run as root; nil if this process is not root.
func otherUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("engines: root needs another user for this server: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}
