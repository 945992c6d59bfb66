package prove

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/pgstore"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/sqlitestore"
)

// TestMain is also the worker of TestExactOverProcesses: "lease where".
func TestMain(m *testing.M) {
	lease, where, ok := strings.Cut(os.Getenv("RATION_WORKER"), " ")
	if !ok {
		os.Exit(m.Run())
	}
	admitted, err := work(lease, where)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(admitted)
}

const limitOfAll = 5000

// work takes with many callers until nothing is left, and nothing comes back, and answers how much was admitted.
func work(lease, where string) (admitted int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	store, end, err := openAt(ctx, where)
	if err != nil {
		return 0, err
	}
	defer end()
	l := ration.New(store, &ration.Options{Timeout: time.Minute})
	defer l.Close()
	n, err := strconv.ParseInt(lease, 10, 64)
	if err != nil {
		return 0, err
	}
	rule := ration.Rule{Name: "exact", Limit: ration.FixedWindow{Limit: limitOfAll, Window: 24 * time.Hour}, Lease: n}
	key := ration.KeyOf("exact", lease)
	var sum atomic.Int64
	var callers sync.WaitGroup
	errs := make(chan error, 16)
	for range 16 {
		callers.Go(func() {
			for refused := 0; refused < 4; {
				d, err := l.Take(ctx, key, rule, 1)
				switch {
				case err != nil:
					errs <- err
					return
				case d.Allowed:
					sum.Add(1)
					refused = 0
				default:
					refused++
					wait := time.NewTimer(1200 * time.Millisecond) // what others have ahead comes back by then
					<-wait.C
				}
			}
		})
	}
	callers.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return sum.Load(), nil
	}
}

func openAt(ctx context.Context, where string) (driver.Store, func(), error) {
	switch scheme, at, _ := strings.Cut(where, ":"); scheme {
	case "sqlite":
		db, err := sql.Open("sqlite", at)
		if err != nil {
			return nil, nil, err
		}
		s, err := sqlitestore.New(ctx, db, nil)
		return s, func() { db.Close() }, err
	case "postgres":
		pool, err := pgxpool.New(ctx, where)
		if err != nil {
			return nil, nil, err
		}
		s, err := pgstore.New(ctx, pool, nil)
		return s, pool.Close, err
	case "redis":
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{at}, DisableCache: true})
		if err != nil {
			return nil, nil, err
		}
		s, err := redisstore.New(c, nil)
		return s, c.Close, err
	}
	return nil, nil, errors.New("no such store: " + where)
}

// TestExactOverProcesses: four processes admit exactly the limit, by joined calls and from leases.
func TestExactOverProcesses(t *testing.T) {
	t.Parallel()
	places := map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "ration.db")}
	if wanted, err := engines.Wanted(); err != nil {
		t.Fatal(err)
	} else if wanted {
		places["postgres"] = engines.Postgres(t, nil).URL
		places["redis"] = "redis:" + engines.Redis(t, nil).Addr
	}
	for name, where := range places {
		for _, lease := range []int{0, 50} {
			t.Run(fmt.Sprintf("%s/lease %d", name, lease), func(t *testing.T) {
				t.Parallel()
				s, end, err := openAt(t.Context(), where) // the schema is there before the processes are
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close(); end() })
				var sum atomic.Int64
				var processes sync.WaitGroup
				for range 4 {
					processes.Go(func() {
						cmd := exec.CommandContext(t.Context(), os.Args[0])
						cmd.Env = append(os.Environ(), fmt.Sprintf("RATION_WORKER=%d %s", lease, where))
						cmd.Stderr = os.Stderr
						out, err := cmd.Output()
						if err != nil {
							t.Error(err)
							return
						}
						n, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
						if err != nil {
							t.Error(err)
						}
						sum.Add(n)
					})
				}
				processes.Wait()
				if n := sum.Load(); n != limitOfAll {
					t.Errorf("%d admitted of %d", n, limitOfAll)
				}
			})
		}
	}
}
