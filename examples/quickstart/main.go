// Quickstart decides a few uses of one user, on a store in memory.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

func main() {
	ctx := context.Background()
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()

	chat := ration.TokenBucket{Burst: 2, Refill: ration.PerMinute(10)}
	for range 3 {
		d, err := limiter.Take(ctx, ration.KeyOf("user-42"), chat, 1)
		switch {
		case err != nil:
			fmt.Println("could not tell:", err)
		case !d.Allowed:
			fmt.Println("refused, try again in", d.RetryAfter.Round(time.Second))
		default:
			fmt.Println("go ahead,", d.Remaining, "left")
		}
	}
}
