// Package redisstore keeps the counts of a ration.Limiter in Redis or Valkey: one server, Sentinel or a Cluster.
package redisstore
