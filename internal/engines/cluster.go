//go:build linux

package engines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cluster is a Redis or Valkey Cluster of three primaries, each with one replica.
type Cluster struct {
	Nodes []*Server // three primaries, then the replica of each, as it was at the start
}

// RedisCluster starts a cluster for the time of a test, and waits until all slots are served and all replicas follow.
func RedisCluster(t testing.TB, opts *RedisOptions) *Cluster {
	t.Helper()
	return started(t, func() (*Cluster, error) { return StartCluster(opts) })
}

const (
	clusterPrimaries = 3
	clusterSlots     = 16_384
)

// StartCluster is RedisCluster without a test: the caller calls Close.
func StartCluster(opts *RedisOptions) (c *Cluster, err error) {
	c = &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	buses := make([]int, 2*clusterPrimaries)
	for i := range buses {
		// Without it the bus would be at port + 10000, which may be no port at all.
		if buses[i], err = freePort(); err != nil {
			return nil, err
		}
		k, err := redisKind(opts, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(buses[i]),
			"--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "5000")
		if err != nil {
			return nil, err
		}
		k.name += "-cluster"
		node, err := start(k)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c, c.join(ctx, buses)
}

func (c *Cluster) join(ctx context.Context, buses []int) error {
	for i, node := range c.Nodes {
		if _, err := redisDo(ctx, node.Addr, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1)); err != nil {
			return err
		}
		if i < clusterPrimaries {
			first, end := i*clusterSlots/clusterPrimaries, (i+1)*clusterSlots/clusterPrimaries
			if _, err := redisDo(ctx, node.Addr, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(first), fmt.Sprint(end-1)); err != nil {
				return err
			}
		}
		if i > 0 {
			if _, err := redisDo(ctx, c.Nodes[0].Addr, "CLUSTER", "MEET", "127.0.0.1", fmt.Sprint(node.Port), fmt.Sprint(buses[i])); err != nil {
				return err
			}
		}
	}
	if err := c.agree(ctx, 0); err != nil {
		return err
	}
	for i, replica := range c.Nodes[clusterPrimaries:] {
		id, err := redisText(ctx, c.Nodes[i].Addr, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		if _, err := redisDo(ctx, replica.Addr, "CLUSTER", "REPLICATE", id); err != nil {
			return err
		}
	}
	return c.Ready(ctx)
}

// Ready waits until every node sees all slots served, every node healthy, and every replica following, or ctx is done.
func (c *Cluster) Ready(ctx context.Context) error {
	return c.agree(ctx, len(c.Nodes)-clusterPrimaries)
}

// agree waits until every node sees all the others and so many replicas.
func (c *Cluster) agree(ctx context.Context, replicas int) error {
	return poll(ctx, func() error {
		for _, node := range c.Nodes {
			if err := c.check(ctx, node, replicas); err != nil {
				return fmt.Errorf("engines: cluster node %s: %w", node.Addr, err)
			}
		}
		return nil
	})
}

func (c *Cluster) check(ctx context.Context, node *Server, replicas int) error {
	info, err := redisText(ctx, node.Addr, "CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New("some slots are not served")
	}
	// Each line of the file is a node; what the file says counts, since the node comes back to it after a kill.
	if _, err := redisDo(ctx, node.Addr, "CLUSTER", "SAVECONFIG"); err != nil {
		return err
	}
	file, err := os.ReadFile(filepath.Join(node.Dir, "nodes.conf"))
	if err != nil {
		return err
	}
	shards, primaries := map[string]string{}, map[string]string{}
	for _, line := range strings.Split(string(file), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 8 || strings.Contains(fields[2], "fail") || strings.Contains(fields[2], "handshake") || fields[7] != "connected" {
			continue
		}
		_, shards[fields[0]], _ = strings.Cut(fields[1], "shard-id=")
		if strings.Contains(fields[2], "slave") {
			primaries[fields[0]] = fields[3]
		}
	}
	if len(shards) < len(c.Nodes) || len(primaries) < replicas {
		return fmt.Errorf("sees %d nodes, %d of them replicas", len(shards), len(primaries))
	}
	for replica, primary := range primaries {
		// Valkey refuses to start on such a file.
		if shards[replica] != shards[primary] {
			return errors.New("takes a replica and its primary for two shards")
		}
	}
	return followed(ctx, node.Addr)
}

// followed is an error if the server at addr is a replica that has not caught up yet.
func followed(ctx context.Context, addr string) error {
	info, err := redisText(ctx, addr, "INFO", "replication")
	if err == nil && strings.Contains(info, "role:slave") && !strings.Contains(info, "master_link_status:up") {
		err = fmt.Errorf("engines: the replica %s does not follow yet", addr)
	}
	return err
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// Close ends all nodes and removes their data.
func (c *Cluster) Close() error { return closeAll(c.Nodes) }

func (c *Cluster) logs() string { return logsOf(c.Nodes) }

func closeAll(servers []*Server) (err error) {
	for _, s := range servers {
		err = errors.Join(err, s.Close())
	}
	return err
}

func logsOf(servers []*Server) string {
	var b strings.Builder
	for _, s := range servers {
		b.WriteString(s.logs() + "\n")
	}
	return b.String()
}
