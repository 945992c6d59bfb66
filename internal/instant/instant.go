// Package instant is how a Limiter asks a store in its own memory about a bucket, which is what most calls are about: by
// numbers in registers instead of a driver.Txn. It answers what Apply would, or nothing.
package instant

import "github.com/ration-go/ration/internal/arith"

// A Bucket is a limit on the keys of one Space, made ready by the store that shall be asked.
type Bucket struct {
	Size  int64
	Rate  arith.Rate
	Mark  uint64 // the store's own: the same for all keys
	Where uint64 // likewise
}

// Store is a store that can be asked so. Its methods never wait and allocate nothing.
type Store interface {
	// Bucket makes ready a limit on the keys of space; ok is false if the store has no short way for it.
	Bucket(space string, size int64, rate arith.Rate) (b Bucket, ok bool)

	// TakeBucket is a Take of cost, at least 1, by the key of no group and this id. Unless known, nothing was done: ask
	// Apply. The results are single values to stay in registers.
	TakeBucket(b *Bucket, id string, cost int64) (used, retryAfter, resetAt, at int64, allowed, known bool)
}
