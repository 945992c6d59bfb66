package prove

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ration-go/ration"
)

// long is how many times the usual a run is.
func long() int {
	n, _ := strconv.Atoi(os.Getenv("RATION_LONG"))
	return max(1, n)
}

// question is one call of a history, on one count; answer is what it was told.
type question struct {
	peek  bool
	cost  int64
	limit int64
}

type answer struct {
	allowed bool
	used    int64
}

// count is a FixedWindow that does not end in the time of a history: the state is what was used. Every number that was
// answered has to be that of the moment at which the call took effect.
var count = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		used, q, a := state.(int64), input.(question), output.(answer)
		fits := used+q.cost <= q.limit
		next := used
		if fits && !q.peek {
			next += q.cost
		}
		return a.allowed == fits && a.used == next, next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
}

// history has callers ask limiters about one key at once, and answers what was asked and told.
func history(t *testing.T, limiters []*ration.Limiter, callers, calls int) []porcupine.Operation {
	t.Helper()
	key := ration.KeyOf(t.Name(), fmt.Sprint(rand.Uint64()))
	limit := ration.Rule{Name: "linear", Limit: ration.FixedWindow{Limit: int64(callers * calls / 2), Window: 24 * time.Hour}}
	size := int64(callers * calls / 2)
	begin := time.Now()
	var mu sync.Mutex
	var ops []porcupine.Operation
	var work sync.WaitGroup
	for caller := range callers {
		work.Go(func() {
			l := limiters[caller%len(limiters)]
			for range calls {
				q := question{cost: 1, limit: size}
				switch rand.IntN(10) {
				case 0:
					q.peek = true
				case 1:
					q.cost = 1 + rand.Int64N(3)
				}
				ask := l.Take
				if q.peek {
					ask = l.Peek
				}
				call := time.Since(begin)
				d, err := ask(t.Context(), key, limit, q.cost)
				back := time.Since(begin)
				if err != nil {
					t.Errorf("%+v: %v", q, err)
					return
				}
				mu.Lock()
				ops = append(ops, porcupine.Operation{ClientId: caller, Input: q, Output: answer{allowed: d.Allowed, used: d.Used}, Call: int64(call), Return: int64(back)})
				mu.Unlock()
			}
		})
	}
	work.Wait()
	return ops
}

// TestLinearizable: joined calls are answered as if they had come one after the other, each between its call and its return,
// through one process and through two.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for name, open := range stores(t) {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprint(name, "/", processes), func(t *testing.T) {
				t.Parallel()
				var limiters []*ration.Limiter
				for range processes {
					limiters = append(limiters, open(t))
				}
				for range 5 * long() {
					ops := history(t, limiters, 10, 25)
					began := time.Now()
					result, info := porcupine.CheckOperationsVerbose(count, ops, 5*time.Minute)
					t.Logf("%d calls checked in %v: %s", len(ops), time.Since(began), result)
					if result != porcupine.Ok {
						file := t.TempDir() + "/history.html"
						if f, err := os.Create(file); err == nil {
							_ = porcupine.Visualize(count, info, f)
							f.Close()
						}
						t.Fatalf("%d calls: %s", len(ops), result)
					}
				}
			})
		}
	}
}

// TestCheckerSees: the checker refuses histories that are wrong.
func TestCheckerSees(t *testing.T) {
	t.Parallel()
	op := func(caller, call, back int, q question, a answer) porcupine.Operation {
		return porcupine.Operation{ClientId: caller, Input: q, Output: a, Call: int64(call), Return: int64(back)}
	}
	one := question{cost: 1, limit: 1}
	for what, ops := range map[string][]porcupine.Operation{
		"two of one":            {op(0, 1, 4, one, answer{allowed: true, used: 1}), op(1, 2, 3, one, answer{allowed: true, used: 1})},
		"a refusal before":      {op(0, 1, 2, one, answer{used: 1}), op(1, 3, 4, one, answer{allowed: true, used: 1})},
		"a number that was not": {op(0, 1, 2, one, answer{allowed: true, used: 2})},
		"a peek of the past":    {op(0, 1, 2, one, answer{allowed: true, used: 1}), op(1, 3, 4, question{peek: true, limit: 1}, answer{allowed: true})},
	} {
		if porcupine.CheckOperations(count, ops) {
			t.Errorf("%s is found right", what)
		}
	}
	right := []porcupine.Operation{op(0, 1, 4, one, answer{allowed: true, used: 1}), op(1, 2, 3, one, answer{used: 1})}
	if !porcupine.CheckOperations(count, right) {
		t.Error("a right history is found wrong")
	}
}
