//go:build linux

package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Server is one server that was started here. Methods are safe for concurrent use, one at a time has effect.
type Server struct {
	Addr string // 127.0.0.1:port
	Port int
	URL  string // as clients take it
	Dir  string // its data, and its log

	kind kind
	user *syscall.Credential

	mu     sync.Mutex
	proc   *process
	paused bool
}

// kind is what one kind of server is like.
type kind struct {
	name    string
	program string
	other   bool                     // refuses to run as root
	prepare func(s *Server) error    // makes its files; again with another port if that was taken
	args    func(s *Server) []string //
	ping    func(context.Context, *Server) error
	tidy    func(s *Server) // after its end, before Dir is removed
	stop    syscall.Signal  // ends it in good order
	orphan  syscall.Signal  // ends it when this process is gone
}

// patience is how long a server may take to start or stop, on a busy machine.
const patience = 60 * time.Second

// start starts a server and waits until it answers.
func start(k kind) (s *Server, err error) {
	// A port can be taken between the moment it was found free and the start.
	for range 3 {
		if s, err = startOnce(k); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startOnce(k kind) (s *Server, err error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s = &Server{kind: k, Port: port, Addr: fmt.Sprintf("127.0.0.1:%d", port)}
	if s.Dir, err = os.MkdirTemp("", "ration-"+k.name+"-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if k.other {
		if s.user, err = otherUser(); err != nil {
			return nil, err
		}
		if s.user != nil {
			if err := os.Chown(s.Dir, int(s.user.Uid), int(s.user.Gid)); err != nil {
				return nil, err
			}
		}
	}
	if k.prepare != nil {
		if err := k.prepare(s); err != nil {
			return nil, fmt.Errorf("engines: %s: %w", k.name, err)
		}
	}
	return s, s.Restart()
}

// command runs a program as the server's user, in its folder, with nothing of this process's environment.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = s.Dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	return cmd
}

// Restart starts the server again with the same data on the same port, and waits until it answers. A server that runs is
// stopped first.
func (s *Server) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command(s.kind.program, s.kind.args(s)...)
	cmd.Stdout, cmd.Stderr = log, log
	if s.proc, err = launch(cmd, s.kind.orphan); err != nil {
		s.proc = nil
		return fmt.Errorf("engines: %s: %w", s.kind.name, err)
	}
	return s.ready()
}

// ready waits until the server answers.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var ended error
	err := poll(ctx, func() error {
		if !s.proc.running() {
			ended = fmt.Errorf("ended: %w", s.proc.err)
			if s.proc.err == nil {
				ended = errors.New("ended")
			}
			return nil
		}
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return s.kind.ping(once, s)
	})
	if err = errors.Join(ended, err); err != nil {
		return fmt.Errorf("engines: %s does not answer: %w\n%s", s.kind.name, err, s.Log())
	}
	return nil
}

// Ping asks the server for a sign of life, over its own protocol.
func (s *Server) Ping(ctx context.Context) error { return s.kind.ping(ctx, s) }

// Kill ends the server and its children by SIGKILL.
func (s *Server) Kill() error {
	return s.end(func(p *process) error { return p.kill() })
}

// Stop ends the server in good order: SIGTERM, or what cuts off its clients. One that is down, stays so.
func (s *Server) Stop() error {
	return s.end(func(p *process) error { return p.stop(s.kind.stop, patience) })
}

func (s *Server) end(how func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	if s.paused {
		s.proc.signal(syscall.SIGCONT)
		s.paused = false
	}
	err := how(s.proc)
	s.proc = nil
	if err != nil {
		return fmt.Errorf("engines: %s: %w", s.kind.name, err)
	}
	return nil
}

// Pause stops the server and its children where they are (SIGSTOP): connections stay open and nobody answers.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && s.proc.running() {
		s.proc.signal(syscall.SIGSTOP)
		s.paused = true
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && s.paused {
		s.proc.signal(syscall.SIGCONT)
		s.paused = false
	}
}

// Done is closed when the server's process ends, by itself or not. A server that is down answers a closed channel.
func (s *Server) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return s.proc.done
	}
	down := make(chan struct{})
	close(down)
	return down
}

// Close ends the server and removes its data.
func (s *Server) Close() error {
	// The orphan's signal is the fastest end that leaves nothing behind.
	err := s.end(func(p *process) error { return p.stop(s.kind.orphan, patience) })
	if s.kind.tidy != nil {
		s.kind.tidy(s)
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

func (s *Server) logFile() string { return filepath.Join(s.Dir, "server.log") }

// Log is the end of what the server has printed.
func (s *Server) Log() string {
	const most = 4000
	text, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

func (s *Server) logs() string {
	return fmt.Sprintf("log of %s on %s:\n%s", s.kind.name, s.Addr, s.Log())
}
