package redisscript

import (
	"context"
	"slices"
	"strconv"
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
	const guarded = "min_slaves_good_slaves:1"
	for info, want := range map[string]string{
		well:                          "redis",
		well + "arch_bits:64":         "redis",
		well + "arch_bits:32":         "redis.bits",
		well + "redis_version:6.0.16": "redis.version",
		well + "evicted_keys:7":       "redis.evicted",
		well + "cluster_state:fail":   "redis.cluster",
		"":                            "redis.unreachable",

		well + "maxmemory:1000\r\nused_memory:950":   "redis.memory",
		well + "maxmemory:1000\r\nused_memory:800":   "redis",
		well + "aof_last_write_status:err":           "redis.disk",
		well + "aof_last_write_status:ok":            "redis",
		"redis_version:7.0.15\r\nrole:master\r\n":    "redis", // it does not say what it writes to disk
		well + "connected_slaves:1":                  "redis.failover",
		well + "connected_slaves:1\r\n" + guarded:    "redis",
		well + "connected_slaves:1\r\nwait_for:1":    "redis",
		well + "connected_slaves:1\r\nwait_for:2":    "redis.wait",
		well + "maxmemory:1\r\nmaxmemory_policy:lru": "redis.eviction",
	} {
		replicas, _ := strconv.Atoi(infoOf(info)["wait_for"]) // of the store
		s := New(says(info), Config{SweepEvery: -1, Replicas: replicas})
		var codes []string
		for _, f := range s.Check(context.Background()) {
			codes = append(codes, f.Code)
		}
		if !slices.Equal(codes, []string{want}) {
			t.Errorf("%q: %q, want %s", info, codes, want)
		}
	}
}
