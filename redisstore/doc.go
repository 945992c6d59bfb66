// Package redisstore keeps the counts of a ration.Limiter in Redis or Valkey: one server, Sentinel or a Cluster. Redis 6.2 is
// the oldest that works.
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}, DisableCache: true})
//	store, err := redisstore.New(client, nil)
//	limiter := ration.New(store, nil)
//
// Or by a URL, with a client of its own: [Open]. Package goredis does the same over a client of go-redis.
//
// A decision is one call of a Lua script, whatever its limits are, by the server's clock. On a Cluster the keys of one
// decision must be of one group (ration.Key.In); a batch is one script call for each place, in parallel.
//
// What Redis cannot promise: a fail-over can forget the last charges, since replicas get them later. Options.WaitReplicas
// makes such a loss known and rare, but not impossible. See docs/redis.md.
package redisstore
