//go:build linux

package engines

import (
	"path/filepath"
	"testing"
)

// Curl is the path of curl, for tests that drive a server of their own with it.
func Curl(t testing.TB) string {
	t.Helper()
	return client(t, "RATION_CURL", "curl")
}

// Wrk is the path of wrk, which loads a server with HTTP requests.
func Wrk(t testing.TB) string {
	t.Helper()
	return client(t, "RATION_WRK", "wrk")
}

// Chromium is the path of a Chromium that runs without a screen.
func Chromium(t testing.TB) string {
	t.Helper()
	// Debian's /usr/bin/chromium-headless-shell is a shell script, whose child outlives a kill.
	const dir = "/usr/lib/chromium/"
	return client(t, "RATION_CHROMIUM", dir+"chromium-headless-shell", dir+"chromium")
}

// RedisCLI is the path of redis-cli.
func RedisCLI(t testing.TB) string {
	t.Helper()
	return client(t, "RATION_REDIS_CLI", "redis-cli")
}

// Buf is the path of buf, which checks and compiles Protocol Buffers.
func Buf(t testing.TB) string {
	t.Helper()
	return client(t, "RATION_BUF", filepath.Join(cacheFolder(), "buf", "bin", "buf"))
}

func client(t testing.TB, variable string, places ...string) string {
	t.Helper()
	Require(t)
	path, err := program(variable, "", places...)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
