//go:build linux

package engines

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

const helper = "RATION_ENGINES_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helper) != "" {
		os.Exit(beHelper())
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	// Every server has a goroutine of its own, which ends with it.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := poll(ctx, func() error {
		if n := runtime.NumGoroutine(); n > before {
			return fmt.Errorf("engines: %d goroutines are left, there were %d", n, before)
		}
		return nil
	})
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// beHelper starts two servers, tells where, and waits to be killed.
func beHelper() int {
	for _, start := range []func() (*Server, error){
		func() (*Server, error) { return StartRedis(nil) },
		func() (*Server, error) { return StartPostgres(nil) },
	} {
		s, err := start()
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(s.proc.pid, s.Addr)
	}
	io.Copy(io.Discard, os.Stdin)
	return 1
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// silent checks that s does not answer while it is paused, and does so again after it.
func silent(t *testing.T, s *Server) {
	t.Helper()
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if s.Ping(ctx) == nil {
		t.Error("a paused server answers")
	}
	s.Resume()
	must(t, s.Ping(soon(t)))
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	for _, version := range []int{15, 18} {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			s := Postgres(t, &PostgresOptions{Version: version, Settings: []string{"max_connections=17"}})
			ask := func(sql, want string) {
				t.Helper()
				got, err := pgQuery(soon(t), s.Addr, sql)
				if err != nil || got != want {
					t.Errorf("%s: %q %v, want %q", sql, got, err, want)
				}
			}
			ask("select current_setting('server_version_num')::int / 10000", fmt.Sprint(version))
			ask("show max_connections", "17")
			ask("create table kept (n int)", "")
			ask("insert into kept values (7)", "")
			must(t, s.Kill())
			if s.Ping(soon(t)) == nil {
				t.Error("a killed server answers")
			}
			must(t, s.Restart())
			ask("select n from kept", "7")
			silent(t, s)
			must(t, s.Stop())
			must(t, s.Restart())
			ask("select n from kept", "7")
			must(t, s.Kill()) // and Close tidies up
		})
	}
}

func TestPgBouncer(t *testing.T) {
	t.Parallel()
	pg := Postgres(t, nil)
	s := PgBouncer(t, pg, &PgBouncerOptions{Settings: []string{"default_pool_size = 3"}})
	must(t, s.Ping(soon(t)))
	silent(t, s)
	must(t, pg.Kill())
	must(t, pg.Restart())
	must(t, poll(soon(t), func() error { return s.Ping(soon(t)) }))
	must(t, s.Kill())
	must(t, s.Restart())
}

func TestRedis(t *testing.T) {
	t.Parallel()
	for _, valkey := range []bool{false, true} {
		t.Run(map[bool]string{false: "redis", true: "valkey"}[valkey], func(t *testing.T) {
			t.Parallel()
			s := Redis(t, &RedisOptions{Valkey: valkey, Args: []string{"--maxmemory", "10mb"}})
			for i := range 100 {
				_, err := redisDo(soon(t), s.Addr, "SET", fmt.Sprint(i), "kept")
				must(t, err)
			}
			must(t, s.Kill())
			if s.Ping(soon(t)) == nil {
				t.Error("a killed server answers")
			}
			must(t, s.Restart())
			size, err := redisDo(soon(t), s.Addr, "DBSIZE")
			if err != nil || size != int64(100) {
				t.Errorf("after a kill: %v keys, %v", size, err)
			}
			silent(t, s)
			must(t, s.Stop())
			must(t, s.Stop())
			select {
			case <-s.Done():
			default:
				t.Error("a stopped server is not done")
			}
			must(t, s.Restart())
		})
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	for name, proxy := range map[string]func(t *testing.T) *Server{
		"nginx": func(t *testing.T) *Server {
			return Nginx(t, func(addr string) string { return "server { listen " + addr + "; return 200 kept; }" })
		},
		"caddy": func(t *testing.T) *Server {
			return Caddy(t, func(addr string) string { return "http://" + addr + " {\n\trespond kept\n}" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := proxy(t)
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			ask := func() {
				t.Helper()
				r, err := client.Get(s.URL)
				must(t, err)
				defer r.Body.Close()
				if text, err := io.ReadAll(r.Body); err != nil || string(text) != "kept" {
					t.Errorf("%q %v", text, err)
				}
			}
			ask()
			must(t, s.Kill())
			if s.Ping(soon(t)) == nil {
				t.Error("a killed server answers")
			}
			must(t, s.Restart())
			ask()
			must(t, s.Stop())
		})
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	for _, valkey := range []bool{false, true} {
		t.Run(map[bool]string{false: "redis", true: "valkey"}[valkey], func(t *testing.T) {
			t.Parallel()
			c := RedisCluster(t, &RedisOptions{Valkey: valkey})
			// Slot 0 is the first primary's, and the last slot the third's.
			_, err := redisDo(soon(t), c.Addrs()[2], "SET", "{06S}a", "1")
			must(t, ignoreMoved(err))
			must(t, c.Nodes[4].Kill())
			must(t, c.Nodes[4].Restart())
			must(t, c.Ready(soon(t)))
		})
	}
}

// ignoreMoved is err, unless the node says that the key is another's.
func ignoreMoved(err error) error {
	if err != nil && strings.Contains(err.Error(), "MOVED") {
		return nil
	}
	return err
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	set := Sentinel(t, nil)
	addr, err := set.Current(soon(t))
	if err != nil || addr != set.Primary.Addr {
		t.Fatal(addr, err)
	}
	must(t, set.Primary.Kill())
	must(t, poll(soon(t), func() error {
		addr, err := set.Current(soon(t))
		if err == nil && addr != set.Replica.Addr {
			err = fmt.Errorf("the primary is still %s", addr)
		}
		return err
	}))
	must(t, set.Primary.Restart())
}

// A test process that is killed takes its servers with it.
func TestKilledOwner(t *testing.T) {
	t.Parallel()
	Require(t)
	self, err := os.Executable()
	must(t, err)
	dir, err := os.MkdirTemp("", "ration-owner-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o711)) // PostgreSQL's user passes through
	owner := exec.Command(self)
	owner.Env = append(os.Environ(), helper+"=1", "TMPDIR="+dir)
	stdin, err := owner.StdinPipe()
	must(t, err)
	defer stdin.Close()
	out, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	lines := bufio.NewScanner(out)
	pids := map[int]string{}
	for len(pids) < 2 && lines.Scan() {
		var pid int
		var addr string
		if _, err := fmt.Sscan(lines.Text(), &pid, &addr); err != nil {
			t.Error(lines.Text())
			break
		}
		pids[pid] = addr
	}
	must(t, owner.Process.Kill())
	owner.Wait()
	if len(pids) != 2 {
		t.Fatal("the helper started", pids)
	}
	for pid, addr := range pids {
		must(t, poll(soon(t), func() error {
			if _, state, ok := parentOf(pid); ok && state != "Z" {
				return fmt.Errorf("process %d on %s outlives its owner", pid, addr)
			}
			return nil
		}))
	}
}

func TestMissingProgram(t *testing.T) {
	t.Setenv("RATION_REDIS_SERVER", "/nowhere/redis-server")
	_, err := StartRedis(nil)
	if err == nil || !strings.Contains(err.Error(), ".ci/engines") {
		t.Errorf("it says %v, and not how to install it", err)
	}
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		on, ci string
		want   bool
		fails  bool
	}{{"1", "", true, false}, {"1", "true", true, false}, {"", "", false, false}, {"", "true", false, true}} {
		t.Setenv("RATION_ENGINES", c.on)
		t.Setenv("CI", c.ci)
		got, err := Wanted()
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("RATION_ENGINES=%q CI=%q: %v, %v", c.on, c.ci, got, err)
		}
	}
}
