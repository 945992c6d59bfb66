//go:build linux

package doctor_test

import (
	"sync"
	"testing"

	"github.com/ration-go/ration/internal/engines"
)

// shared is a server for all tests, started when the first asks for it.
type shared struct {
	start func() (*engines.Server, error)
	once  sync.Once
	srv   *engines.Server
	err   error
}

func (s *shared) get(t testing.TB) *engines.Server {
	t.Helper()
	engines.Require(t)
	s.once.Do(func() { s.srv, s.err = s.start() })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.srv
}

var (
	pg15  = &shared{start: func() (*engines.Server, error) { return startPostgres(15) }}
	pg18  = &shared{start: func() (*engines.Server, error) { return startPostgres(18) }}
	plain = &shared{start: func() (*engines.Server, error) { return engines.StartRedis(nil) }}
)

func startPostgres(version int) (*engines.Server, error) {
	return engines.StartPostgres(&engines.PostgresOptions{Version: version, Settings: []string{"fsync=on"}})
}

func stopEngines() {
	for _, s := range []*shared{pg15, pg18, plain} {
		if s.srv != nil {
			_ = s.srv.Close()
		}
	}
}
