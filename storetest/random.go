package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/ration-go/ration/driver"
)

// random compares the store with the model over random sequences of commands, and prints the first that differs as a
// case, as short as it could be made.
func (s *suite) random(t scope) {
	store := s.h.Open(t)
	until := time.Now().Add(s.settings.random)
	sequences, steps := 0, 0
	for n := uint64(0); n < 20 || time.Now().Before(until); n++ {
		rng := rand.New(rand.NewPCG(s.seed, n))
		g := newGenerator(rng, s)
		lines := g.sequence()
		sequences, steps = sequences+1, steps+len(lines)
		e := s.executor(t, store)
		d := e.differs(lines)
		store = e.store
		if d == nil {
			continue
		}
		short := s.shrink(e, lines)
		if again := e.differs(short); again != nil {
			d = again
		}
		t.Errorf("after random commands (RATION_SEED=%d, sequence %d) %s. The shortest that shows it, as a case:\n%s",
			s.seed, n, d.sentence(), asCase(short))
		return
	}
	t.Logf("%d random sequences of %d commands in all, RATION_SEED=%d", sequences, steps, s.seed)
}

// differs runs lines on a fresh namespace and on a fresh model. nil: the same answers, or lines that have no one answer.
func (e *executor) differs(lines []string) *difference {
	steps, ok := answered(lines)
	if !ok {
		return nil
	}
	e.freshGroup()
	return e.firstDifference(steps)
}

// answered reads lines and fills in the model's answers. It is false for lines that cannot be read, that go back across the
// end of a state, which may then be there or not, or that ask something when a sweep is due.
func answered(lines []string) ([]step, bool) {
	sc, m := newScript(), newModel()
	e := onModel(m)
	var steps []step
	latest := sc.now
	for _, line := range lines {
		st, err := sc.command(line)
		if err != nil {
			return nil, false
		}
		if sc.now < latest && m.endsWithin(sc.now, latest) {
			return nil, false
		}
		latest = max(latest, sc.now)
		if st == nil {
			continue
		}
		if st.do == applyBatch && m.awaitsSweep(sc.now) {
			return nil, false
		}
		answers, err := e.do(st)
		if err != nil {
			return nil, false
		}
		for j := range answers {
			st.parts[j].want = st.parts[j].labelled(answers[j])
		}
		steps = append(steps, *st)
	}
	return steps, true
}

// shrink leaves out lines as long as the rest still differs.
func (s *suite) shrink(e *executor, lines []string) []string {
	until := time.Now().Add(5 * time.Second)
	for size := len(lines) / 2; size > 0; {
		smaller := false
		for at := 0; at+size <= len(lines) && time.Now().Before(until); {
			rest := slices.Delete(slices.Clone(lines), at, at+size)
			if e.differs(rest) != nil {
				lines, smaller = rest, true
			} else {
				at += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return lines
}

// asCase is lines with the model's answers, as a case file has them.
func asCase(lines []string) string {
	text := "# Found by random commands\n    " + strings.Join(lines, "\n    ") + "\n"
	if f, err := parseCases("random", text); err == nil {
		if answered, err := f.rewrite(); err == nil {
			return answered
		}
	}
	return text
}

// generator makes commands that are valid for a store of some caps.
type generator struct {
	rng      *rand.Rand
	caps     driver.Caps
	restarts int
	long     bool // steps of the clock of hours and days, for budgets
	keys     []string
	limits   []string // names
	counters bool
	steady   bool     // no two limits share a state, and none changes
	taken    []string // times of takes
	ids      []string
	asked    map[string]string // what was asked for under an id
	amounts  map[string]int    // how many limits that names
	script   *script
	model    *model
	shadow   *executor
	latest   driver.Micros
	lines    []string
}

func newGenerator(rng *rand.Rand, s *suite) *generator {
	g := &generator{rng: rng, caps: s.info.Caps, script: newScript(), model: newModel(), keys: []string{"a", "b", `"c d"@g`}}
	if s.info.OneGroup {
		g.keys[2] = `"c d"`
	}
	if s.h.Again != nil && rng.IntN(8) == 0 {
		g.restarts = 1
	}
	g.counters = g.caps.Has(driver.CapCounter)
	g.shadow = onModel(g.model)
	g.latest = g.script.now
	return g
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// add appends a command and follows it in the model, which knows when the clock may go back.
func (g *generator) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if err := g.try(line); err != nil {
		panic(fmt.Sprintf("storetest: made a command that is none: %s: %v", line, err))
	}
}

// try is add for a line that need not be a command.
func (g *generator) try(line string) error {
	st, err := g.script.command(line)
	if err != nil {
		return err
	}
	g.lines = append(g.lines, line)
	g.latest = max(g.latest, g.script.now)
	if st != nil {
		if _, err := g.shadow.do(st); err != nil {
			panic("storetest: the model failed: " + err.Error())
		}
	}
	return nil
}

// sequence makes one sequence: a few limits, then commands.
func (g *generator) sequence() []string {
	g.long = g.rng.IntN(3) == 0
	g.asked, g.amounts = map[string]string{}, map[string]int{}
	for i := range 2 + g.rng.IntN(3) {
		g.declare(fmt.Sprintf("l%d", i))
	}
	if g.rng.IntN(4) == 0 {
		g.add("at %s", pick(g.rng, "2026-03-28T22:30:00Z", "2026-10-24T22:10:00Z", "2028-02-29T12:00:00Z", "2026-12-31T23:59:00Z", "2100-01-01T00:00:00Z"))
	}
	length := 10 + g.rng.IntN(60)
	if g.rng.IntN(25) == 0 {
		length = 500 // enough for a window to join its uses
	}
	for len(g.lines) < length {
		g.next()
	}
	return g.lines
}

func (g *generator) declare(name string) {
	if !slices.Contains(g.limits, name) {
		g.limits = append(g.limits, name)
	}
	word := "rule"
	if old, ok := g.script.limits[name]; ok {
		if strings.Contains(old.op.Key.Space, "||") { // a bare limit stays one
			word = "limit"
		}
	} else if !g.steady && g.rng.IntN(2) == 0 {
		word = "limit"
	}
	kinds := []string{}
	for kind, cap := range kindCaps {
		if g.caps.Has(cap) {
			kinds = append(kinds, kindNames[kind])
		}
	}
	slices.Sort(kinds)
	if len(kinds) == 0 {
		return
	}
	size := pick[int64](g.rng, 0, 1, 2, 3, 5, 10, 20, 100, 1000)
	if g.rng.IntN(12) == 0 {
		size = pick[int64](g.rng, 65535, 1<<31, 1<<40)
	}
	span := pick(g.rng, "1s", "2s", "7s", "10s", "1m", "90.5s", "1h", "24h")
	switch kind := kinds[g.rng.IntN(len(kinds))]; kind {
	case "bucket":
		rate := pick[int64](g.rng, 1, 2, 3, 7, 10, 60, 1000, 65535)
		text := fmt.Sprintf("bucket %d/%s burst %d", rate, span, size)
		if _, err := parseLimit("", text); err != nil {
			text = fmt.Sprintf("bucket %d/1s burst %d", rate, size)
		}
		g.add("%s %s = %s", word, name, text)
	case "concurrent":
		g.add("%s %s = concurrent %d lease %s", word, name, min(size, 1000), span)
	case "budget":
		g.add("%s %s = budget %d/%s", word, name, size, pick(g.rng, "hour", "day", "day Europe/Berlin", "day America/Sao_Paulo from 06:00",
			"week from Wednesday 12:00", "month", "month Asia/Kathmandu from day 31", "year from April day 6"))
	default:
		g.add("%s %s = %s %d/%s", word, name, kind, size, span)
	}
}

func (g *generator) key() string { return g.keys[min(g.rng.IntN(5), len(g.keys)-1)%len(g.keys)] }

func (g *generator) cost(size int64) int64 {
	switch g.rng.IntN(10) {
	case 0:
		return 0
	case 1:
		return size
	case 2:
		return size/2 + 1
	case 3:
		return min(size+1, driver.MaxNumber)
	}
	return 1 + g.rng.Int64N(3)
}

// next adds one command, or a batch of some.
func (g *generator) next() {
	if len(g.limits) == 0 || len(g.script.limits) == 0 {
		g.add("hit %s 10s 1", g.key())
		return
	}
	switch n := g.rng.IntN(100); {
	case n < 28:
		g.clock()
	case n < 32 && !g.steady:
		g.declare(g.limits[g.rng.IntN(len(g.limits))])
	case n < 35:
		g.add("sweep")
	case n < 36 && g.restarts > 0:
		g.restarts--
		g.add("restart")
	case n < 46:
		g.add("batch")
		for range 2 + g.rng.IntN(6) {
			g.call()
		}
		g.add("send")
	default:
		g.call()
	}
}

func (g *generator) clock() {
	if g.rng.IntN(5) > 0 {
		step := pick(g.rng, "+1µs", "+1ms", "+100ms", "+333.333ms", "+1s", "+2s", "+5s", "+10s", "+1m")
		if g.long {
			step = pick(g.rng, "+1s", "+10m", "+1h", "+5h", "+12h", "+23h", "+1d", "+7d", "+31d")
		}
		g.add("%s", step)
		if g.model.awaitsSweep(g.script.now) {
			g.add("sweep")
		}
		return
	}
	back := driver.Micros(1 + g.rng.Int64N(int64(pick(g.rng, time.Microsecond, time.Millisecond, time.Second, 10*time.Second, time.Hour)/time.Microsecond)))
	if !g.model.endsWithin(g.script.now-back, g.latest) {
		g.add("-%s", spanText(back))
	}
}

func (g *generator) call() {
	name := g.limits[g.rng.IntN(len(g.limits))]
	l := g.script.limits[name]
	size := l.op.Size
	if g.caps.Has(driver.CapIDs) && g.rng.IntN(10) < 4 {
		g.once()
		return
	}
	switch n := g.rng.IntN(100); {
	case l.op.Kind == driver.Slots && n < 70:
		g.add("peek %s %s %d", g.key(), name, g.cost(size))
	case l.op.Kind == driver.Slots:
		g.add("reset %s %s", g.key(), name)
	case n < 40:
		g.add("take %s %s %d", g.key(), name, g.cost(size))
		g.remember()
	case n < 52:
		g.add("peek %s %s %d", g.key(), name, g.cost(size))
	case n < 60:
		g.add("take %s %s %d times %d", g.key(), name, 1+g.rng.Int64N(2), 1+g.rng.IntN(6))
		g.remember()
	case n < 70 && g.counters:
		g.add("hit %s %s %d", g.key(), pick(g.rng, "1s", "10s", "1m"), pick[int64](g.rng, 0, 1, 1, 1, 5, -1, -3, driver.MaxNumber))
	case n < 82:
		at := "@" + instantText(g.script.now)
		if len(g.taken) > 0 && g.rng.IntN(5) > 0 {
			at = g.taken[len(g.taken)-1-g.rng.IntN(min(6, len(g.taken)))]
		}
		g.add("refund %s %s %d %s", g.key(), name, pick[int64](g.rng, 0, 1, 1, 1, 2, 5, 100), at)
	case n < 85:
		g.add("reset %s %s", g.key(), name)
	case n < 87 && g.caps.Has(driver.CapForget):
		g.add("forget %s", g.key())
	case n < 97 && g.caps.Has(driver.CapList):
		g.list()
	default:
		g.add("take %s %s 1", g.key(), name)
		g.remember()
	}
}

// remember keeps the time of a take for a refund.
func (g *generator) remember() { g.taken = append(g.taken, "@"+instantText(g.script.now)) }

// list adds a decision over several keys.
func (g *generator) list() {
	verb := "take-all"
	if g.rng.IntN(5) == 0 {
		verb = "peek-all"
	}
	if items := g.items(2+g.rng.IntN(3), verb == "peek-all"); len(items) > 0 {
		g.add("%s %s", verb, strings.Join(items, " "))
		g.remember()
	}
}

// items are at most n keys and limits: those of one group if the store wants that, and never one state twice.
func (g *generator) items(n int, slots bool) (items []string) {
	var states []driver.Key
	for range n {
		key, name := g.key(), g.limits[g.rng.IntN(len(g.limits))]
		l := g.script.limits[name]
		state := driver.Key{Space: l.op.Key.Space, ID: key}
		if slices.Contains(states, state) || l.op.Kind == driver.Slots && !slots {
			continue
		}
		states = append(states, state)
		items = append(items, fmt.Sprintf("%s:%s:%d", key, name, g.cost(l.op.Size)))
	}
	return items
}
