//go:build linux

package engines

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Caddy starts a Caddy for the time of a test. sites is what stands in its Caddyfile, with the address on which it is to
// listen.
func Caddy(t testing.TB, sites func(addr string) string) *Server {
	t.Helper()
	return started(t, func() (*Server, error) { return StartCaddy(sites) })
}

// StartCaddy is Caddy without a test: the caller calls Close.
func StartCaddy(sites func(addr string) string) (*Server, error) {
	caddy, err := program("RATION_CADDY", "", "caddy")
	if err != nil {
		return nil, err
	}
	return start(kind{
		name:    "Caddy",
		program: caddy,
		prepare: func(s *Server) error {
			s.URL = "http://" + s.Addr
			// No port for its administration, no certificates, and what it keeps stays in its folder, where it runs.
			text := "{\n\tadmin off\n\tauto_https off\n\tstorage file_system " + filepath.Join(s.Dir, "storage") + "\n}\n"
			return os.WriteFile(filepath.Join(s.Dir, "Caddyfile"), []byte(text+sites(s.Addr)+"\n"), 0o644)
		},
		args: func(s *Server) []string {
			return []string{"run", "--adapter", "caddyfile", "--config", filepath.Join(s.Dir, "Caddyfile")}
		},
		ping:   connects,
		stop:   syscall.SIGTERM,
		orphan: syscall.SIGTERM,
	})
}
