package server

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		events := make(chan struct{})
		start := time.Now()
		go func() { // four events, each before the one before has settled
			for range 4 {
				events <- struct{}{}
				time.Sleep(settleTime - time.Millisecond)
			}
		}()
		if !settled(ctx, events, settleTime) {
			t.Error("it did not settle")
		}
		if got, want := time.Since(start), 3*(settleTime-time.Millisecond)+settleTime; got != want {
			t.Errorf("settled after %v, not %v", got, want)
		}
		cancel()
		if settled(ctx, events, settleTime) {
			t.Error("it settled although nothing happened and the program ends")
		}
	})
}

// A folder as Kubernetes mounts it: the file is a link through a link that is swapped.
func TestSteps(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	for _, err := range []error{
		os.Mkdir(in("..v1"), 0o700), os.WriteFile(in("..v1", "c.yaml"), nil, 0o600),
		os.Symlink("..v1", in("..data")), os.Symlink("..data/c.yaml", in("c.yaml")),
		os.Symlink("round", in("round")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := steps(in("c.yaml"))
	want := []string{in("c.yaml"), in("c.yaml"), in("..data"), in("..v1", "c.yaml")}
	if !slices.Equal(got, want) {
		t.Errorf("the steps are %v, not %v", got, want)
	}
	steps(in("round")) // ends
	if got := steps(in("none", "c.yaml")); !slices.Contains(got, in("none", "c.yaml")) {
		t.Errorf("a file that is not there: %v", got)
	}
}
