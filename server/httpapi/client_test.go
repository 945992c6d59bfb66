package httpapi_test

import (
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // sqlite3

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/client"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/memstore"
	"github.com/ration-go/ration/server/httpapi"
	"github.com/ration-go/ration/sqlitestore"
	"github.com/ration-go/ration/storetest"
)

// remote is a client and the server that it asks.
type remote struct {
	*client.Store
	server *httptest.Server
	trips  *atomic.Int64
}

// serve makes a client of a server on store, which belongs to the test.
func serve(t testing.TB, store driver.Store) remote {
	t.Helper()
	l := ration.New(store, nil)
	h, err := httpapi.New(l, store, &httpapi.Options{Logger: slog.New(slog.DiscardHandler), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	trips := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trips.Add(1)
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return connect(t, server, trips)
}

func connect(t testing.TB, server *httptest.Server, trips *atomic.Int64) remote {
	t.Helper()
	c, err := client.New(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return remote{c, server, trips}
}

func again(t testing.TB, s driver.Store) driver.Store {
	return connect(t, s.(remote).server, s.(remote).trips)
}

func trips(s driver.Store) int64 { return s.(remote).trips.Load() }

func TestClientOfMemoryConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) driver.Store { return serve(t, memstore.New(nil)) },
		Full: func(t testing.TB, keys int) driver.Store {
			return serve(t, memstore.New(&memstore.Options{MaxKeys: keys}))
		},
		Again: again,
		Trips: trips,
	})
}

func TestClientOfSQLiteConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB) driver.Store {
			db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "ration.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			store, err := sqlitestore.New(t.Context(), db, &sqlitestore.Options{Synchronous: sqlitestore.Normal})
			if err != nil {
				t.Fatal(err)
			}
			return serve(t, store)
		},
		Again: again,
		Trips: trips,
	})
}

// TestClientOverASocket also has two Limiters of two namespaces on one server.
func TestClientOverASocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	e := newEnv(t, nil)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: e}}
	server.Start()
	defer server.Close()
	limiter := func(namespace string) *ration.Limiter {
		store, err := client.New("unix:"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ration.New(store, &ration.Options{Namespace: namespace})
	}
	one, two := limiter(""), limiter("two")
	defer one.Close()
	defer two.Close()
	key := ration.KeyOf("a", "\xff\x00")
	for i, l := range []*ration.Limiter{one, one, two} {
		d, err := l.Take(t.Context(), key, configured[0], 3)
		if want := []int64{3, 6, 3}[i]; err != nil || d.Used != want {
			t.Errorf("%d: %+v, %v", i, d, err)
		}
	}
	if used := e.ok(t, "peek", `{"key_base64":["YQ==","/wA="],"limit":"chat"}`)["used"]; used != 6.0 {
		t.Errorf("the server's own limit has used %v", used)
	}
	if err := two.Forget(t.Context(), key); err != nil {
		t.Error(err)
	}
	if d, err := one.Peek(t.Context(), key, configured[0], 1); err != nil || d.Used != 6 {
		t.Errorf("after a Forget in another namespace: %+v, %v", d, err)
	}
}

// TestHoldsOverTheWire: the ops of a hold come back, and the errors of holds are what they were.
func TestHoldsOverTheWire(t *testing.T) {
	t.Parallel()
	s := serve(t, memstore.New(nil))
	op := driver.Op{Key: driver.Key{Space: "|c|x|", Group: "\xff", ID: "\xfe"}, Kind: driver.Counter, Size: 10, Span: 60e6, Cost: 4}
	take := &driver.Txn{Verb: driver.Take, ID: "|id\xff", Hold: true, TTL: 60e6, Ops: []driver.Op{op}}
	if err := s.Apply(t.Context(), []*driver.Txn{take}); err != nil || take.Err != nil || !take.Allowed {
		t.Fatalf("%v, %+v", err, take)
	}
	for i := range 2 {
		settle := &driver.Txn{Verb: driver.Settle, ID: "|id\xff", Amounts: []int64{6}}
		other := &driver.Txn{Verb: driver.Settle, ID: "|id\xff", Amounts: []int64{7}}
		missing := &driver.Txn{Verb: driver.Renew, ID: "|other", TTL: 60e6}
		if err := s.Apply(t.Context(), []*driver.Txn{settle, other, missing}); err != nil {
			t.Fatal(err)
		}
		if settle.Err != nil || !settle.Allowed || len(settle.Ops) != 1 || settle.Ops[0].Key != op.Key || i == 0 && settle.Ops[0].Result.Used != 6 {
			t.Errorf("%+v", settle)
		}
		if !errors.Is(other.Err, driver.ErrEnded) || !errors.Is(missing.Err, driver.ErrNoHold) {
			t.Errorf("%v, %v", other.Err, missing.Err)
		}
	}
}
