package redisscript

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/ration-go/ration/driver"
)

// NodeClient is a Client that can ask every node.
type NodeClient interface {
	// Nodes sends the commands to each node, and answers by the node's address.
	Nodes(ctx context.Context, cmds []Cmd) map[string][]Reply
}

// Node is what a server says of itself.
type Node struct {
	Addr       string
	Err        error // it did not answer
	Info       map[string]string
	AppendOnly bool
	FsyncAll   bool // appendfsync always
	NeverFsync bool // appendfsync no
	Saves      bool // it writes snapshots, or would not say
	Evicts     bool
	Replica    bool
	Replicas   int
}

// Inspect asks each node, or the one that answers.
func (s *Store) Inspect(ctx context.Context) (nodes []Node) {
	cmds := []Cmd{
		{Args: []string{"INFO"}},
		{Args: []string{"CONFIG", "GET", "save"}},
		{Args: []string{"CONFIG", "GET", "appendfsync"}},
		{Args: []string{"CLUSTER", "INFO"}},
	}
	byAddr := map[string][]Reply{}
	if c, ok := s.client.(NodeClient); ok {
		byAddr = c.Nodes(ctx, cmds)
	} else {
		// One at a time: a server may refuse those that are not INFO.
		replies := make([]Reply, len(cmds))
		for i := range cmds {
			replies[i] = s.ask(ctx, cmds[i])[0]
		}
		byAddr["the server"] = replies
	}
	for addr, replies := range byAddr {
		nodes = append(nodes, newNode(addr, replies))
	}
	return nodes
}

func newNode(addr string, replies []Reply) Node {
	n := Node{Addr: addr, Err: replies[0].Err, Info: infoOf(replies[0].Text), Saves: true}
	for k, v := range infoOf(replies[3].Text) {
		n.Info[k] = v
	}
	if n.Err == nil && n.Info["redis_version"] == "" {
		n.Err = fmt.Errorf("it says nothing of itself")
	}
	n.AppendOnly = n.Info["aof_enabled"] == "1"
	if fsync := replies[2].List; len(fsync) == 2 {
		n.FsyncAll, n.NeverFsync = fsync[1] == "always", fsync[1] == "no"
	}
	if save := replies[1].List; len(save) == 2 && save[1] == "" {
		n.Saves = false
	}
	policy := n.Info["maxmemory_policy"]
	n.Evicts = n.Info["maxmemory"] != "0" && policy != "" && policy != "noeviction"
	n.Replica = n.Info["role"] == "slave"
	n.Replicas, _ = strconv.Atoi(n.Info["connected_slaves"])
	return n
}

// infoOf reads the lines of name:value.
func infoOf(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[k] = v
		}
	}
	return all
}

// Check is of driver.Checker.
func (s *Store) Check(ctx context.Context) (all []driver.Finding) {
	say := func(level, code, text, remedy string) {
		all = append(all, driver.Finding{Level: level, Code: code, Text: text, Remedy: remedy})
	}
	nodes := s.Inspect(ctx)
	if len(nodes) == 0 {
		say("error", "redis.unreachable", "no node answers", "start Redis, or correct the address")
	}
	for i := range nodes {
		n := &nodes[i]
		if n.Err != nil {
			say("error", "redis.unreachable", fmt.Sprintf("%s: %v", n.Addr, n.Err), "start it, or let this user run INFO")
			continue
		}
		checkNode(n, s.replicas, say)
		checkRoom(n, say)
	}
	if len(all) == 0 {
		say("ok", "redis", fmt.Sprintf("%d node(s), nothing to remark", len(nodes)), "")
	}
	return all
}

func checkNode(n *Node, replicas int, say func(level, code, text, remedy string)) {
	version := n.Info["redis_version"]
	if tooOld(version) {
		say("error", "redis.version", fmt.Sprintf("%s runs version %s", n.Addr, version), "use Redis 6.2 or later, or Valkey")
	}
	if n.Info["arch_bits"] == "32" {
		say("error", "redis.bits", fmt.Sprintf("%s is a program of 32 bits, whose scripts cannot write large numbers", n.Addr), "use one of 64 bits")
	}
	if n.Evicts {
		say("error", "redis.eviction", fmt.Sprintf("%s may evict counts: maxmemory-policy is %s", n.Addr, n.Info["maxmemory_policy"]),
			"set maxmemory-policy to noeviction; a full server then refuses new keys instead of forgetting limits")
	}
	if evicted := n.Info["evicted_keys"]; evicted != "" && evicted != "0" {
		say("warning", "redis.evicted", fmt.Sprintf("%s has evicted %s keys since its start; counts may be among them", n.Addr, evicted), "give it more memory, and set noeviction")
	}
	if n.Info["aof_enabled"] == "" {
		// It does not say: a service with a durability of its own.
	} else if !n.AppendOnly && !n.Saves && !n.Replica {
		say("warning", "redis.persistence", fmt.Sprintf("%s writes nothing to disk: a restart forgets all counts", n.Addr), "set appendonly yes")
	} else if !n.AppendOnly && !n.Replica {
		say("warning", "redis.persistence", fmt.Sprintf("%s keeps no append-only file: a restart forgets what was counted since the last snapshot", n.Addr), "set appendonly yes")
	}
	if state := n.Info["cluster_state"]; state != "" && state != "ok" {
		say("error", "redis.cluster", fmt.Sprintf("%s says that the cluster is in state %s", n.Addr, state), "see redis-cli --cluster check")
	}
	if failing := n.Info["cluster_slots_fail"]; failing != "" && failing != "0" {
		say("error", "redis.cluster", fmt.Sprintf("%s says that %s slots fail", n.Addr, failing), "see redis-cli --cluster check")
	}
	if n.Replica && n.Info["cluster_enabled"] != "1" && n.Info["slave_read_only"] == "1" {
		say("warning", "redis.replica", fmt.Sprintf("%s is a replica", n.Addr), "decisions go to the primary; connect to it, or through Sentinel")
	}
	if replicas > n.Replicas && !n.Replica {
		say("error", "redis.wait", fmt.Sprintf("%s has %d replica(s), and %d are waited for: each charge is made, and reported as unknown", n.Addr, n.Replicas, replicas),
			"start the replicas, or lower WaitReplicas (redis.wait_replicas)")
	}
	if n.Replicas > 0 && replicas == 0 && n.Info["min_slaves_good_slaves"] == "" {
		say("warning", "redis.failover", fmt.Sprintf("%s copies to its replicas later than it answers: a fail-over can forget the last charges", n.Addr),
			"set WaitReplicas (redis.wait_replicas), or min-replicas-to-write on the server, if that matters")
	}
}

// checkRoom looks whether the next writes will find room in memory and on disk.
func checkRoom(n *Node, say func(level, code, text, remedy string)) {
	used, err1 := strconv.ParseInt(n.Info["used_memory"], 10, 64)
	most, err2 := strconv.ParseInt(n.Info["maxmemory"], 10, 64)
	if err1 == nil && err2 == nil && most > 0 && used/9 > most/10 {
		say("warning", "redis.memory", fmt.Sprintf("%s uses %d of %d MiB; when it is full, new keys are refused", n.Addr, used>>20, most>>20), "raise maxmemory")
	}
	if n.AppendOnly && n.NeverFsync {
		say("warning", "redis.fsync", n.Addr+" leaves it to the system when charges reach the disk: a power cut can forget half a minute", "set appendfsync everysec")
	}
	for _, name := range []string{"aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"} {
		if n.Info[name] == "err" {
			say("error", "redis.disk", n.Addr+" could not write to its disk ("+name+")", "see its log; free the disk")
			return
		}
	}
}

// tooOld reports whether version is before 6.2, which knows SET with PXAT.
func tooOld(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (major < 6 || major == 6 && minor < 2)
}
