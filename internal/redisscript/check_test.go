package redisscript

import (
	"context"
	"slices"
	"testing"
)

// says is a client whose server says this of itself.
type says string

func (s says) Do(_ context.Context, cmds []Cmd, replies []Reply) {
	for i := range cmds {
		if cmds[i].Args[0] == "INFO" {
			replies[i].Text = string(s)
		}
	}
}

// TestCheck: what no server of the tests can be made to say.
func TestCheck(t *testing.T) {
	t.Parallel()
	const well = "redis_version:7.0.15\r\nmaxmemory:0\r\naof_enabled:1\r\nrole:master\r\n"
	for info, want := range map[string]string{
		well:                          "redis",
		well + "arch_bits:64":         "redis",
		well + "arch_bits:32":         "redis.bits",
		well + "redis_version:6.0.16": "redis.version",
		well + "evicted_keys:7":       "redis.evicted",
		well + "cluster_state:fail":   "redis.cluster",
		"":                            "redis.unreachable",
	} {
		s := New(says(info), Config{SweepEvery: -1})
		var codes []string
		for _, f := range s.Check(context.Background()) {
			codes = append(codes, f.Code)
		}
		if !slices.Equal(codes, []string{want}) {
			t.Errorf("%q: %q, want %s", info, codes, want)
		}
	}
}
