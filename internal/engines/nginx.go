//go:build linux

package engines

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Nginx starts an nginx for the time of a test. http is what stands in the http block of its configuration, with the address
// on which it is to listen.
func Nginx(t testing.TB, http func(addr string) string) *Server {
	t.Helper()
	return started(t, func() (*Server, error) { return StartNginx(http) })
}

// StartNginx is Nginx without a test: the caller calls Close.
func StartNginx(http func(addr string) string) (*Server, error) {
	nginx, err := program("RATION_NGINX", "", "nginx", "/usr/sbin/nginx")
	if err != nil {
		return nil, err
	}
	return start(kind{
		name:    "nginx",
		program: nginx,
		other:   true, // as root it would run its workers as somebody else, who cannot get at its files
		prepare: func(s *Server) error {
			s.URL = "http://" + s.Addr
			text := "daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr warn;\nevents {}\nhttp {\naccess_log off;\n"
			for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
				text += kind + "_temp_path tmp-" + kind + ";\n"
			}
			return os.WriteFile(filepath.Join(s.Dir, "nginx.conf"), []byte(text+http(s.Addr)+"\n}\n"), 0o644)
		},
		args: func(s *Server) []string {
			return []string{"-e", "stderr", "-p", s.Dir, "-c", filepath.Join(s.Dir, "nginx.conf")}
		},
		ping:   connects,
		stop:   syscall.SIGQUIT,
		orphan: syscall.SIGTERM,
	})
}

// connects is the ping of servers that are asked by HTTP, for which any question may mean something.
func connects(ctx context.Context, s *Server) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("engines: %w", err)
	}
	return conn.Close()
}
