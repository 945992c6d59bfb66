// Api-guard limits an HTTP API: each user, and all users together, in one decision.
//
// Package httplimit does this with standard headers and for many policies; here it is by hand, to show the verbs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net/http"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/ration-go/ration"
	"github.com/ration-go/ration/memstore"
)

var (
	perUser  = ration.Rule{Name: "per-user", Limit: ration.TokenBucket{Burst: 5, Refill: ration.PerMinute(60)}}
	together = ration.Rule{Name: "together", Limit: ration.SlidingWindow{Limit: 1000, Window: time.Minute}}
)

// guard lets a request pass if its user and all users together have room, and charges both or neither.
func guard(limiter *ration.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, ok := r.BasicAuth()
		if !ok || user == "" {
			// Without an identity there is nobody to count: one count for all strangers would let one shut out the others.
			w.Header().Set("WWW-Authenticate", `Basic realm="api"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		o, err := limiter.TakeAll(r.Context(), ration.KeyOf(user).Charge(perUser, 1), ration.Global.Charge(together, 1))
		switch {
		case err != nil: // could not tell: that is not the caller's fault, so it is no 429
			log.Print("rate limit: ", err)
			http.Error(w, "cannot tell now", http.StatusServiceUnavailable)
		case !o.Allowed:
			seconds := int(math.Ceil(o.RetryAfter.Seconds()))
			w.Header().Set("Retry-After", strconv.Itoa(max(seconds, 1)))
			http.Error(w, "over the limit "+o.Name, http.StatusTooManyRequests)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	limiter := ration.New(memstore.New(nil), nil)
	defer limiter.Close()
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: guard(limiter, hello), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	log.Print("listening on ", server.Addr, `; try: curl -u ada: http://127.0.0.1:8080/`)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Print(err)
	}
}
