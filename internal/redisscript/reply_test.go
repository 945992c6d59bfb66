package redisscript

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/arith"
)

// fake answers every command alike.
type fake func(cmd Cmd) Reply

func (f fake) Do(_ context.Context, cmds []Cmd, replies []Reply) {
	for i := range cmds {
		replies[i] = f(cmds[i])
	}
}

func hit() *driver.Txn {
	return &driver.Txn{Verb: driver.Hit, Ops: []driver.Op{{Key: driver.Key{Space: "|c||", ID: "k"}, Kind: driver.Counter, Span: 60e6, Cost: 1}}}
}

func newStore(f fake) *Store { return New(f, Config{SweepEvery: -1}) }

// TestUnreadable: an answer that cannot be read is an error, and never says that nothing was applied.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "x", "1 2", "1 2\n", "1 2\n99", "1 2\n0", "1 2\n0 1,1,z", "1 2\n0 1,1,p1,2", "1 2\n0 0,1,p1,0,3,4,5 more", "1 2\n0 0,1,p1,0,3,4,5\n0",
		"1 2\n0 0,1,w1,9", "1 2\n0 0,1,u1,2,99999|", "9999999999999999999999 2\n0 0,1,",
	} {
		for _, injected := range []driver.Micros{0, 5} {
			s := newStore(func(Cmd) Reply { return Reply{Text: text} })
			txn := hit()
			txn.Now = injected
			err := s.Apply(context.Background(), []*driver.Txn{txn})
			if err = errors.Join(err, txn.Err); err == nil || errors.Is(err, driver.ErrNotApplied) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// TestServerErrors: which errors say that nothing was applied, and which commands are sent again.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	for text, sure := range map[string]bool{
		"READONLY x": true, "OOM x": true, "LOADING x": true, "CLUSTERDOWN x": true, "MISCONF x": true, "NOREPLICAS x": true, "BUSY x": true,
		"ERR x": false, "NOPERM x": false, "UNKILLABLE x": false, "": false,
	} {
		sent := 0
		s := newStore(func(Cmd) Reply { sent++; return Reply{Err: NewServerError(text)} })
		txn := hit()
		err := errors.Join(s.Apply(context.Background(), []*driver.Txn{txn}), txn.Err)
		if errors.Is(err, driver.ErrNotApplied) != sure || err == nil || sent != 1 {
			t.Errorf("%q: %v, sent %d times", text, err, sent)
		}
		if errors.Is(err, driver.ErrFull) != strings.HasPrefix(text, "OOM") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"NOSCRIPT x", "TRYAGAIN x", "MOVED 1 x", "ASK 1 x"} {
		sent := 0
		s := newStore(func(cmd Cmd) Reply {
			if sent++; sent == 1 {
				return Reply{Err: NewServerError(text)}
			}
			if (cmd.Args[0] == "EVAL") != (text == "NOSCRIPT x") {
				t.Errorf("after %q: %s", text, cmd.Args[0])
			}
			return Reply{Text: "1 2\n0 0,1,p1,0,61000002,60000000,0"}
		})
		txn := hit()
		if err := s.Apply(context.Background(), []*driver.Txn{txn}); err != nil || txn.Err != nil || txn.Ops[0].Result.Used != 1 || sent != 2 {
			t.Errorf("%q: %v, %v, sent %d times", text, err, txn.Err, sent)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := newStore(func(Cmd) Reply { cancel(); return Reply{Err: NewServerError("TRYAGAIN x")} })
	txn := hit()
	if err := errors.Join(s.Apply(ctx, []*driver.Txn{txn}), txn.Err); !errors.Is(err, driver.ErrNotApplied) {
		t.Error(err)
	}
}

// TestRefused: what cannot be decided is not sent, and says so.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newStore(func(Cmd) Reply { t.Error("sent"); return Reply{} })
	op := hit().Ops[0]
	other, slots := op, op
	other.Key.ID = "another"
	slots.Kind, slots.Key.Space = driver.Slots, "|s||"
	for want, txn := range map[error]*driver.Txn{
		driver.ErrCrossGroup: {Verb: driver.Take, Ops: []driver.Op{op, other}},
		driver.ErrNoHold:     {Verb: driver.Settle, ID: "ns|nowhere"},
		driver.ErrNotApplied: {Verb: driver.Take, Ops: []driver.Op{slots}},
	} {
		if err := s.Apply(context.Background(), []*driver.Txn{txn}); err != nil || !errors.Is(txn.Err, want) {
			t.Errorf("%v, %v, want %v", err, txn.Err, want)
		}
	}
	once := &driver.Txn{Verb: driver.Take, ID: "ns|0.x", TTL: 1e6, Ops: []driver.Op{op}}
	if s.Route(op.Key) == "0" {
		once.ID = "ns|1.x"
	}
	if err := s.Apply(context.Background(), []*driver.Txn{once}); err != nil || !errors.Is(once.Err, driver.ErrCrossGroup) {
		t.Error(err, once.Err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Apply(ctx, []*driver.Txn{hit()}); !errors.Is(err, driver.ErrNotApplied) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestScripts: their texts are ASCII without comments, and no fragment is missing.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, s := range append(oneScripts[1:], plainScript, holdScript, dueScript) {
		sum := sha1.Sum([]byte(s.text))
		if s.sha != hex.EncodeToString(sum[:]) || len(s.text) < 100 || strings.Contains(s.text, "--") {
			t.Error(s.text[:100])
		}
		if strings.ContainsFunc(s.text, func(r rune) bool { return r > 0x7E }) {
			t.Error("not ASCII")
		}
	}
}

func FuzzRow(f *testing.F) {
	for _, row := range []string{"", "p1,2,3,4,5", "w60,2,3,100,5,1,0;5:2;", "u1,2,2|1:2:3|0:1:2", "p-1,0,0,-7,7"} {
		f.Add(row)
	}
	f.Fuzz(func(t *testing.T, row string) {
		var st arith.State
		if !parseRow(&st, row) {
			return
		}
		if len(st.Uses) > arith.MaxSlots {
			t.Fatal(len(st.Uses))
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add("1 2\n0 0,1,p1,0,61000002,60000000,0", "h2,1,0,00,1,2,3,4,1 ration:|c||{7}::k c9,60 9:0:0:0:0:60:0:0:0:0 1,1,2,1,0,0,0,1")
	f.Add("1 2\n20 s1,1 a ", "h")
	n := newNames("ration:", 256)
	f.Fuzz(func(t *testing.T, reply, record string) {
		s := newStore(func(Cmd) Reply { return Reply{Text: reply} })
		for _, txn := range []*driver.Txn{hit(), {Verb: driver.Settle, ID: "|7.x"}, {Verb: driver.Forget, Ops: hit().Ops}} {
			_ = s.Apply(context.Background(), []*driver.Txn{txn})
		}
		if rec, ok := n.parseRecord(record); ok && len(rec.ops) != len(rec.keys) {
			t.Fatal(rec)
		}
	})
}
