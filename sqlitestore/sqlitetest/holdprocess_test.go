package sqlitetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/sqlitestore"
)

// heldLife is how long a hold of childReserve lasts that is given back.
const heldLife = second

// childReserve reserves 1 that goes back and 2 that do not, in turn, until it is killed, and prints each acknowledged id.
func childReserve(s *sqlitestore.Store) error {
	for i := 0; ; i++ {
		id := fmt.Sprintf("%d-%d", os.Getpid(), i)
		txn := reserve(id, 1, true, heldLife)
		if i%2 == 0 {
			txn = reserve(id, 2, false, hour)
		}
		if err := s.Apply(context.Background(), []*driver.Txn{txn}); err != nil || txn.Err != nil {
			return errors.Join(err, txn.Err)
		}
		fmt.Println(id)
	}
}

const shared = 60

// childSettle settles the holds that another process made: every second one as all do, the others in its own way. It prints
// how many it settled, and what it used of those of its own way.
func childSettle(s *sqlitestore.Store) error {
	own := int64(os.Getpid())
	settled, used := 0, int64(0)
	for i := range shared {
		n := own
		if i%2 == 0 {
			n = 4
		}
		txn := settle(fmt.Sprint(i), n)
		if err := s.Apply(context.Background(), []*driver.Txn{txn}); err != nil {
			return err
		}
		switch {
		case txn.Err == nil && txn.Allowed:
			if settled++; n == own {
				used += n
			}
		case !errors.Is(txn.Err, driver.ErrEnded):
			return txn.Err
		}
	}
	fmt.Println(settled, used)
	return nil
}

// TestKillWithHolds: two processes that reserve are killed. What counts is what the records say, and each acknowledged
// reservation is among them; what is to be given back is.
func TestKillWithHolds(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		acknowledged := make(map[string]bool)
		for round := range 2 {
			all := []*process{startChild(t, "reserve", engine, path), startChild(t, "reserve", engine, path)}
			for _, p := range all {
				p.begin(t)
			}
			for _, p := range all {
				for range 5 + 16*round {
					acknowledged["|"+p.line(t)] = true
				}
			}
			for _, p := range all {
				if err := p.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				for {
					line, err := p.out.ReadString('\n')
					if err != nil {
						break
					}
					acknowledged["|"+strings.TrimSpace(line)] = true
				}
				_ = p.cmd.Wait()
			}
		}

		s := open(t, engine, path, nil)
		rows, err := openDB(t, engine, path).Query(`SELECT id, record FROM ration_holds`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		stays, charged, found := int64(0), int64(0), 0
		for rows.Next() {
			var id string
			var blob []byte
			if err := rows.Scan(&id, &blob); err != nil {
				t.Fatal(err)
			}
			h, _, err := driver.DecodeHold(id, blob, 0)
			if err != nil {
				t.Fatal(err)
			}
			if charged += h.Ops[0].Cost; !h.Return {
				stays += h.Ops[0].Cost
			}
			if acknowledged[id] {
				found++
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if n := held(t, s, 0); n != charged {
			t.Errorf("%d count, but the records are of %d", n, charged)
		}
		if found != len(acknowledged) {
			t.Errorf("%d reservations were acknowledged, and %d are in the file", len(acknowledged), found)
		}
		background := open(t, engine, path, &sqlitestore.Options{SweepEvery: time.Hour})
		until(t, "what is to go back goes back", func() bool { return held(t, background, 0) <= stays })
		if n := held(t, s, 0); n != stays {
			t.Errorf("%d count, but %d should", n, stays)
		}
		for _, h := range openHolds(t, s) {
			if apply(t, s, &driver.Txn{Verb: driver.Cancel, ID: h.ID}); h.Return {
				t.Errorf("%s should have been given back", h.ID)
			}
		}
		if n := held(t, s, 0); n != 0 {
			t.Errorf("everything was given back, but %d count", n)
		}
	})
}

// TestSettledOnce: two processes settle the same holds. Each hold is charged once, with what the first one said.
func TestSettledOnce(t *testing.T) {
	each(t, func(t *testing.T, engine string) {
		path := file(t)
		s := open(t, engine, path, nil)
		var batch []*driver.Txn
		for i := range shared {
			batch = append(batch, reserve(fmt.Sprint(i), 10, true, hour))
		}
		apply(t, s, batch...)
		all := []*process{startChild(t, "settle", engine, path), startChild(t, "settle", engine, path)}
		for _, p := range all {
			p.begin(t)
		}
		settled, used := 0, int64(shared/2*4)
		for _, p := range all {
			var n int
			var own int64
			if _, err := fmt.Sscan(p.line(t), &n, &own); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Error(err)
			}
			settled, used = settled+n, used+own
		}
		// Those that both settled in the same way, both did.
		if want := shared + shared/2; settled != want {
			t.Errorf("%d settlements were acknowledged, not %d", settled, want)
		}
		if n := held(t, s, 0); n != used {
			t.Errorf("%d were used, but %d count", used, n)
		}
		if left := openHolds(t, s); len(left) != 0 {
			t.Errorf("all were settled, but open are %+v", left)
		}
	})
}
