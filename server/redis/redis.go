// Package redis opens the Redis and Valkey stores for a server. It is apart from package server so that a program without
// them does not link the client.
package redis

import (
	"context"

	"github.com/ration-go/ration/driver"
	"github.com/ration-go/ration/redisstore"
	"github.com/ration-go/ration/server"
)

// Open is a server.OpenFunc for redis://…, redis-cluster://…, redis-sentinel://… and the same with rediss for TLS; see
// redisstore.Open.
func Open(_ context.Context, url string, cfg *server.Config) (driver.Store, error) {
	return redisstore.Open(url, &redisstore.Options{Prefix: cfg.Redis.Prefix, WaitReplicas: cfg.Redis.WaitReplicas})
}
