package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // sqlite3

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/sqlitestore"
)

// open opens the budgets in a file that processes share. On several machines it would be pgstore or redisstore, and nothing
// else would change.
func open(ctx context.Context, path string) (l *ration.Limiter, closeAll func() error, err error) {
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		return nil, nil, err
	}
	store, err := sqlitestore.New(ctx, db, nil)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	l = ration.New(store, &ration.Options{Timeout: time.Minute})
	return l, func() error { return errors.Join(l.Close(), db.Close()) }, nil
}

const (
	teams = 3
	users = 10 // of each team
	price = 150
)

// work is one process of the service: so many callers at once, each of whom asks so many questions. It tells of each answer
// what it has cost.
func work(ctx context.Context, path string, callers, questions int, out io.Writer) (err error) {
	l, closeAll, err := open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	s := &Service{Limiter: l, Price: price, Hold: hold}
	var mu sync.Mutex
	var wg sync.WaitGroup
	failures := make([]error, callers)
	for i := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), uint64(os.Getpid())))
			for range questions {
				team, user := fmt.Sprint("team", rng.IntN(teams)), fmt.Sprint("user", rng.IntN(users))
				spent, err := s.Answer(ctx, team, user, 100+rng.Int64N(300), fakeModel(rng), func(string) {})
				line := fmt.Sprintln("answered", spent)
				if over, ok := errors.AsType[*OverBudgetError](err); ok {
					line = fmt.Sprintln("refused", over.Rule)
				} else if err != nil {
					failures[i] = err
					return
				}
				mu.Lock()
				_, err = io.WriteString(out, line)
				mu.Unlock()
				if err != nil {
					failures[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// told adds up what a worker tells. It calls answered after each answer.
func told(r io.Reader, answered func(spent int64), refused func(rule string)) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var spent int64
		var rule string
		if n, _ := fmt.Sscanf(lines.Text(), "answered %d", &spent); n == 1 {
			answered(spent)
		} else if n, _ := fmt.Sscanf(lines.Text(), "refused %s", &rule); n == 1 {
			refused(rule)
		}
	}
}
