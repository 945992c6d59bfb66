package redisstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// crashKeys spread over all places, each with crashSize to give away.
const (
	crashKeys = 60
	crashSize = 300
)

var crashLimit = ration.FixedWindow{Limit: crashSize, Window: 24 * time.Hour}

// tally is what a worker saw.
type tally struct {
	Admitted [crashKeys]int64 // acknowledged
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
				d, err := l.Take(ctx, ration.KeyOf("k"+strconv.Itoa(key)), crashLimit, 1)
				cancel()
				mu.Lock()
				sum.Slowest = max(sum.Slowest, time.Since(began))
				switch {
				case err == nil && d.Allowed:
					sum.Admitted[key]++
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

// TestClusterCrash: four processes take from a Cluster while a primary is killed, its replica takes over, the old one comes
// back, and a place is moved to another node.
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
	lost := map[int]bool{} // keys of the primary that is killed
	s := open(t, c, &redisstore.Options{Prefix: prefix})
	for i := range crashKeys {
		n, err := strconv.Atoi(keySlot(t, c, s, i))
		if err != nil {
			t.Fatal(err)
		}
		lost[i] = n < 16384/3
	}
	moveSlot(t, cl, keySlot(t, c, s, firstOf(lost, false)))
	if err := cl.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a fail-over", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for i := range crashKeys {
			if lost[i] {
				l := ration.New(s, nil)
				_, err := l.Peek(ctx, ration.KeyOf("k"+strconv.Itoa(i)), crashLimit, 1)
				return err == nil
			}
		}
		return true
	})
	pause(time.Second)
	if err := cl.Nodes[0].Restart(); err != nil {
		t.Fatal(err)
	}
	pause(2 * time.Second)
	var sum tally
	for _, f := range finish {
		one := f()
		for i := range crashKeys {
			sum.Admitted[i] += one.Admitted[i]
			sum.Unknown[i] += one.Unknown[i]
			sum.Refused[i] += one.Refused[i]
		}
		sum.Failed += one.Failed
		sum.Slowest = max(sum.Slowest, one.Slowest)
		if one.Other != "" {
			t.Error(one.Other)
		}
	}
	l := ration.New(s, nil)
	var admitted, unknown, forgotten int64
	for i := range crashKeys {
		n := used(t, l, ration.KeyOf("k"+strconv.Itoa(i)), crashLimit)
		admitted += sum.Admitted[i]
		unknown += sum.Unknown[i]
		missing := max(0, sum.Admitted[i]-n)
		forgotten += missing
		if missing > 0 && !lost[i] {
			t.Errorf("key %d, whose primary was not killed: %d admitted, but %d used", i, sum.Admitted[i], n)
		}
		if n > sum.Admitted[i]+sum.Unknown[i] || n > crashSize {
			t.Errorf("key %d: %d used, of %d admitted and %d unknown", i, n, sum.Admitted[i], sum.Unknown[i])
		}
		if over := sum.Admitted[i] - crashSize; over > missing {
			t.Errorf("key %d: %d too many admitted, but only %d forgotten by the fail-over", i, over, missing)
		}
	}
	t.Logf("%d admitted, %d unknown, %d surely not applied, %d forgotten by the fail-over, slowest call %v", admitted, unknown, sum.Failed, forgotten, sum.Slowest)
	if sum.Slowest > 10*time.Second {
		t.Errorf("a call under a deadline of 3 s took %v", sum.Slowest)
	}
	if admitted < 1000 {
		t.Errorf("only %d admitted", admitted)
	}
	checkKeys(t, c, prefix)
}

func firstOf(m map[int]bool, want bool) int {
	for i := range crashKeys {
		if m[i] == want {
			return i
		}
	}
	return 0
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
