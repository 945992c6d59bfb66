package redisstore_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/engines"
	"github.com/ration-go/ration/redisstore"
)

// crashKeys spread over all places.
const crashKeys = 60

// crashLimit is how much a key has to give away: some are used up before anything happens, some meanwhile, some never.
func crashLimit(key int) ration.FixedWindow {
	return ration.FixedWindow{Limit: 50 << (key % 8), Window: 24 * time.Hour}
}

// tally is what a worker saw.
type tally struct {
	Admitted [crashKeys]int64   // acknowledged
	When     [crashKeys][]int64 // of those, Unix time in ms of the acknowledgement
	Unknown  [crashKeys]int64
	Refused  [crashKeys]int64
	Failed   int64 // surely not applied
	Slowest  time.Duration
	Other    string // an error that says neither
}

// worker takes from all keys until its standard input ends, and prints its tally.
func worker(addrs, prefix string) error {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: strings.Split(addrs, ","), DisableCache: true})
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := redisstore.New(c, &redisstore.Options{Prefix: prefix})
	if err != nil {
		return err
	}
	l := ration.New(s, nil)
	defer l.Close()
	stop := make(chan struct{})
	go func() {
		os.Stdin.Read(make([]byte, 1))
		close(stop)
	}()
	var sum tally
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				key := n * 7 % crashKeys
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
				d, err := l.Take(ctx, ration.KeyOf("k"+strconv.Itoa(key)), crashLimit(key), 1)
				cancel()
				now := time.Now().UnixMilli()
				mu.Lock()
				sum.Slowest = max(sum.Slowest, time.Since(began))
				switch {
				case err == nil && d.Allowed:
					sum.Admitted[key]++
					sum.When[key] = append(sum.When[key], now)
				case err == nil:
					sum.Refused[key]++
				case errors.Is(err, ration.ErrOutcomeUnknown):
					sum.Unknown[key]++
				case errors.Is(err, driver.ErrNotApplied):
					sum.Failed++
				default:
					sum.Other = err.Error()
				}
				mu.Unlock()
				pause := time.NewTimer(2 * time.Millisecond) // so that it lasts
				<-pause.C
			}
		})
	}
	wg.Wait()
	return json.NewEncoder(os.Stdout).Encode(sum)
}

func startWorker(t *testing.T, addrs []string, prefix string) (finish func() tally) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RATION_WORKER="+strings.Join(addrs, ",")+" "+prefix)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (sum tally) {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
			t.Error(err, out.String())
		}
		return sum
	}
}

// TestClusterCrash: four processes take from a Cluster while a place is moved to another node, and while a primary is killed,
// whose replica has fallen behind, takes over, and sees the old one come back. Too much is admitted only of what was lost:
// what was acknowledged by the primary that was killed after its replica had lost touch.
func TestClusterCrash(t *testing.T) {
	t.Parallel()
	cl := engines.RedisCluster(t, nil)
	c := newClient(t, cl.Addrs()...)
	prefix := newPrefix()
	var finish []func() tally
	for range 4 {
		finish = append(finish, startWorker(t, cl.Addrs(), prefix))
	}
	long, err := strconv.Atoi(os.Getenv("RATION_LONG"))
	if err != nil {
		long = 1
	}
	pause := func(d time.Duration) { <-time.After(time.Duration(long) * d) }
	pause(time.Second)
	s := open(t, c, &redisstore.Options{Prefix: prefix})
	l := ration.New(s, nil)
	var killed [crashKeys]bool // keys of the primary that is killed
	moved := -1
	for i := range crashKeys {
		n, err := strconv.Atoi(keySlot(t, c, s, i))
		if err != nil {
			t.Fatal(err)
		}
		if killed[i] = n < 16384/3; !killed[i] && moved < 0 {
			moved = i
		}
	}
	moveSlot(t, cl, keySlot(t, c, s, moved))
	from, to := killBehind(t, cl, time.Duration(long)*300*time.Millisecond)
	peek := func(key int) (int64, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d, err := l.Peek(ctx, ration.KeyOf("k"+strconv.Itoa(key)), crashLimit(key), 0)
		return d.Used, err
	}
	waitFor(t, "a fail-over", func() bool {
		_, err := peek(slices.Index(killed[:], true))
		return err == nil
	})
	pause(time.Second)
	if err := cl.Nodes[0].Restart(); err != nil {
		t.Fatal(err)
	}
	pause(2 * time.Second)
	var sum tally
	for i, f := range finish {
		one := f()
		if one.total() == 0 {
			t.Errorf("process %d took nothing", i)
		}
		sum.add(&one)
	}
	var unknown, forgotten, bound, over int64
	for i := range crashKeys {
		n, err := peek(i)
		if err != nil {
			t.Fatal(err)
		}
		exposed := int64(0) // what a lost write can explain
		for _, when := range sum.When[i] {
			if killed[i] && when >= from && when <= to {
				exposed++
			}
		}
		missing, much := max(0, sum.Admitted[i]-n), max(0, sum.Admitted[i]-crashLimit(i).Limit)
		unknown, forgotten, bound, over = unknown+sum.Unknown[i], forgotten+missing, bound+exposed, over+much
		if missing > exposed {
			t.Errorf("key %d: %d admitted, but %d used; writes that were lost explain %d", i, sum.Admitted[i], n, exposed)
		}
		if n > sum.Admitted[i]+sum.Unknown[i] || n > crashLimit(i).Limit {
			t.Errorf("key %d: %d used, of %d admitted and %d unknown", i, n, sum.Admitted[i], sum.Unknown[i])
		}
		if much > missing {
			t.Errorf("key %d: %d too many admitted, but only %d forgotten by the fail-over", i, much, missing)
		}
	}
	t.Logf("%d admitted, %d unknown, %d surely not applied; %d forgotten by the fail-over, of at most %d; %d admitted above a limit; slowest call %v",
		sum.total(), unknown, sum.Failed, forgotten, bound, over, sum.Slowest)
	if sum.Other != "" {
		t.Error(sum.Other)
	}
	if sum.Slowest > 10*time.Second {
		t.Errorf("a call under a deadline of 3 s took %v", sum.Slowest)
	}
	if sum.total() < 1000 {
		t.Errorf("only %d admitted", sum.total())
	}
	checkKeys(t, c, prefix)
}

func (s *tally) total() (n int64) {
	for _, one := range s.Admitted {
		n += one
	}
	return n
}

func (s *tally) add(one *tally) {
	for i := range crashKeys {
		s.Admitted[i] += one.Admitted[i]
		s.When[i] = append(s.When[i], one.When[i]...)
		s.Unknown[i] += one.Unknown[i]
		s.Refused[i] += one.Refused[i]
	}
	s.Failed += one.Failed
	s.Slowest = max(s.Slowest, one.Slowest)
	s.Other = cmp.Or(s.Other, one.Other)
}

// killBehind kills the first primary a while after its replica has lost touch with it, and answers in Unix time in ms
// between when callers can have had acknowledgements of what was lost. Its replica takes over after five seconds at the earliest.
func killBehind(t testing.TB, cl *engines.Cluster, behind time.Duration) (from, to int64) {
	t.Helper()
	primary, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{cl.Nodes[0].Addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	replica := cl.Nodes[3]
	from = time.Now().UnixMilli()
	replica.Pause()
	command(t, primary, "CLIENT", "KILL", "TYPE", "replica")
	<-time.After(behind)
	if err := cl.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	to = time.Now().Add(2 * time.Second).UnixMilli()
	replica.Resume()
	return from, to
}

func keySlot(t testing.TB, c rueidis.Client, s *redisstore.Store, key int) string {
	t.Helper()
	r := c.Do(context.Background(), c.B().Arbitrary("CLUSTER", "KEYSLOT", "{"+s.Route(driver.Key{ID: "k" + strconv.Itoa(key)})+"}").Build())
	n, err := r.AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(n)
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// moveSlot moves a slot from its primary to the last one, key by key, as redis-cli does.
func moveSlot(t testing.TB, cl *engines.Cluster, slot string) {
	t.Helper()
	nodes := make([]rueidis.Client, 3)
	ids := make([]string, 3)
	from, to := -1, 2
	for i := range nodes {
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{cl.Nodes[i].Addr}, DisableCache: true, ForceSingleClient: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		nodes[i], ids[i] = c, command(t, c, "CLUSTER", "MYID")
	}
	n, _ := strconv.Atoi(slot)
	from = n * 3 / 16384
	if from == to {
		to = 1
	}
	command(t, nodes[to], "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[from])
	command(t, nodes[from], "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to])
	for {
		keys, err := nodes[from].Do(context.Background(), nodes[from].B().Arbitrary("CLUSTER", "GETKEYSINSLOT", slot, "1").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) == 0 {
			break
		}
		<-time.After(20 * time.Millisecond) // callers meet the slot half moved
		command(t, nodes[from], "MIGRATE", "127.0.0.1", fmt.Sprint(cl.Nodes[to].Port), keys[0], "0", "5000")
	}
	for _, i := range []int{to, from, 3 - to - from} {
		command(t, nodes[i], "CLUSTER", "SETSLOT", slot, "NODE", ids[to])
	}
}
