package place_test

import (
	"fmt"
	"testing"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/internal/place"
)

func TestOf(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for i := range 20_000 {
		id := fmt.Sprint("user:", i)
		at := place.Of(&driver.Key{Space: "a", ID: id})
		if at < 0 || at >= place.Count {
			t.Fatalf("%d is no place", at)
		}
		seen[at] = true
		if other := place.Of(&driver.Key{Space: "b", ID: id}); other != at {
			t.Fatalf("two limits of one key are at %d and %d", at, other)
		}
		if group := place.Of(&driver.Key{Group: id, ID: "x"}); group != at {
			t.Fatalf("a group is at %d, not at %d", group, at)
		}
	}
	// 20 000 balls leave e^(−20000/16384), that is 30 %, of the bins empty.
	if n := len(seen); n < place.Count*65/100 {
		t.Errorf("20000 keys are in %d places only", n)
	}
}

// TestNeverMoves: ids that are out there name places.
func TestNeverMoves(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]int{"alice": 5052, "": 16321, "\xff\x00": 11757} {
		if got := place.Of(&driver.Key{ID: id}); got != want {
			t.Errorf("%q is at %d, not %d", id, got, want)
		}
	}
}
