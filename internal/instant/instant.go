// Package instant is what the root package and memstore share for the short way of buckets in memory.
package instant

import "github.com/ration-go/ration/internal/arith"

// A Bucket is a limit on the keys of one Space, made ready by the memstore.Store that shall be asked.
type Bucket struct {
	Size  int64
	Rate  arith.Rate
	Space uint64 // the store's own: the same for all keys
	Where uint64 // likewise
}
