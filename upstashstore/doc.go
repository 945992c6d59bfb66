// Package upstashstore keeps the counts of a ration.Limiter in Upstash Redis, over its REST API: for functions that live for
// one request, and wherever no connection can be kept open. It imports the standard library only.
//
//	limiter := ration.New(upstashstore.New(nil), nil) // UPSTASH_REDIS_REST_URL, UPSTASH_REDIS_REST_TOKEN
//
// A decision is one HTTP request, and so is a batch. The scripts and the stored data are those of redisstore: both may be
// used on one database.
package upstashstore
