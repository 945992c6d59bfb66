package storetest

import (
	"strings"
	"testing"

	"github.com/ration-go/ration/driver"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]driver.Micros{
		"0s": 0, "1µs": 1, "999µs": 999, "1ms": 1000, "1.5ms": 1500, "1.000001s": 1_000_001, "90ms": 90_000,
		"1m": 60_000_000, "1m30.5s": 90_500_000, "1h": 3_600_000_000, "1d": dayMicros, "2d3h0.5s": 2*dayMicros + 3*3_600_000_000 + 500_000,
		"-1s": -1_000_000, "-1d1h": -dayMicros - 3_600_000_000, "36525d": driver.Century,
	} {
		if got, err := parseSpan(text); err != nil || got != want {
			t.Errorf("parseSpan(%q) = %d, %v; want %d", text, got, err, want)
		}
		if again, err := parseSpan(spanText(want)); err != nil || again != want {
			t.Errorf("spanText(%d) = %q, which reads %d, %v", want, spanText(want), again, err)
		}
	}
	for _, text := range []string{"", "1", "x", "1.5d", "d", "1s-1s", "1ns"} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("parseSpan(%q) = %d, but should fail", text, got)
		}
	}
}

func TestKeysOfCases(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]driver.Key{
		`k`: {ID: "k"}, `"a b"`: {ID: "a b"}, `"a:b@c"`: {ID: "a:b@c"}, `k@g`: {ID: "k", Group: "g"}, `"\x00"@"\""`: {ID: "\x00", Group: `"`},
		`ab*3@g`: {ID: "ababab", Group: "g"},
	} {
		if got, rest, err := parseKey(text); got != want || rest != "" || err != nil {
			t.Errorf("parseKey(%s) = %q, %q, %v; want %q", text, got, rest, err, want)
		}
	}
}

// TestCommandsThatAreNone: a slip in a case file must not become a case that says nothing.
func TestCommandsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"take", "take k", "take k f", "take k g 1", "take k f x", "take k f 1 2", "take k f 1 times", "peek k f 1 times 2", "hit k 1 1", "hit k 60s",
		"refund k f 1", "refund k f 1 0s", "refund k f 1 @x", "take-all", "take-all k:f", "take-all k:g:1", "grab k f 1", "at", "at noon", "+", "+x",
		"reset k", "reset k f 1", "forget", "forget k f", "limit x", "limit x = bucket 1/1s", "limit x = fixed 1", "limit x = tumbling 1/1s",
		"limit x = fixed -1/1s", "limit x = fixed 1/0s", "limit x = budget 1/fortnight", "limit x = bucket 0/1s burst 1", "sweep now",
		"batch\n    sweep", "batch\n    batch", `take "k f 1`, "repeat 3 take k f 1", "repeat x 1s take k f 1", "take k:f:1",
		`take "" f 1`, "take k@ f 1 extra", "take k -> yes", "take-all k:f:1 k:f:2",
		"once", "once a", "once a k", "once a k f", "once a k f x", "once a k f 1 return", "once a k f 1 ttl", "once a k f 1 ttl x", "once a@g k f 1",
		"once-all a", "once-all a k:f", "reserve a k f 1 ttl 1s ttl 2s", "reserve a k f 1 return return", "reserve a k:f:1", "settle", "settle a x", "settle a -1",
		"settle a 1 alone", "cancel", "cancel a 1", "progress", "progress a 1s", "renew", "renew a x", "renew a 1s 2s", "holds a", "batch\n    holds",
		"take k c 1", "take k c 1 times 2", "take-all k:c:1", "refund k c 1 @0s", "once a k c 1", "once-all a k:f:1 k:c:1", "limit x = concurrent 5",
		"limit x = concurrent 5/1s", "limit x = concurrent 4097 lease 1s", "limit x = concurrent 5 lease 0s",
	} {
		_, err := parseCases("test", "# A case\n    limit f = fixed 5/1m\n    limit c = concurrent 5 lease 1m\n    "+text+"\n")
		if err == nil {
			t.Errorf("%q was taken for a command", text)
		} else if !strings.HasPrefix(err.Error(), "test:") {
			t.Errorf("%q fails without a place: %v", text, err)
		}
	}
	for _, text := range []string{"    hit k 1s 1\n", "# A\n    -> yes\n", "# A\n    batch\n    hit k 1s 1\n", "# A\n    sweep -> done\n", "# A\n    at 1s -> done\n"} {
		if _, err := parseCases("test", text); err == nil {
			t.Errorf("%q was taken for a case file", text)
		}
	}
}

// TestCasesAreWritten: the files are as the model and the writer make them, so that a rewrite shows only what changed.
func TestCasesAreWritten(t *testing.T) {
	t.Parallel()
	files, err := loadCases()
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, f := range files {
		cases += len(f.cases)
		got, err := f.rewrite()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(got, "\n")
		for i, line := range f.lines {
			if i >= len(want) || line != want[i] {
				t.Errorf("%s:%d: %q would be rewritten; run with RATION_REWRITE=1 and read the difference", f.name, i+1, line)
				break
			}
		}
		for _, c := range f.cases {
			if len(c.steps) == 0 {
				t.Errorf("%s: %q has no commands", f.name, c.title)
			}
		}
	}
	if cases < 100 {
		t.Errorf("only %d cases were found", cases)
	}
}

// TestRewriteKeepsBatchesAndLists: what is written reads as it was.
func TestRewriteKeepsBatchesAndLists(t *testing.T) {
	t.Parallel()
	const text = `Prose first.

# Lists and batches
    limit f = fixed 5/1m
    batch
    take k f 1             -> yes used 1 left 4 reset 1m
    take-all k:f:1 j:f:5   -> yes
      -> k:f yes used 2 left 3 reset 1m
      -> j:f yes used 5 left 0 reset 1m
    send
    repeat 3 1s take k f 1 -> wrong
`
	const want = `Prose first.

# Lists and batches
    limit f = fixed 5/1m
    batch
    take k f 1              -> yes used 1 left 4 reset 1m
    take-all k:f:1 j:f:5    -> yes
      -> k:f yes used 2 left 3 reset 1m
      -> j:f yes used 5 left 0 reset 1m
    send
    repeat 3 1s take k f 1  -> yes used 5 left 0 reset 58s
`
	f, err := parseCases("test", text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.rewrite(); err != nil || got != want {
		t.Errorf("rewrite answered %v\n%s", err, got)
	}
}
