// Package grpclimit guards gRPC servers with limits, and paces gRPC clients, as interceptors for grpc-go.
//
//	perUser := ration.Rule{Name: "per-user", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(60)}}
//	guard, err := grpclimit.NewGuard(limiter, []grpclimit.Policy{{Limit: perUser, Key: grpclimit.HTTP(httplimit.ByUser())}}, nil)
//	…
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Unary()), grpc.ChainStreamInterceptor(guard.Stream()))
//
// All policies of a call are charged in one decision, or none. A refusal is RESOURCE_EXHAUSTED with the details RetryInfo and
// QuotaFailure and the trailer grpc-retry-pushback-ms, which is what the retries built into clients look at. A call that nobody
// could decide is UNAVAILABLE, never RESOURCE_EXHAUSTED.
//
// A Pacer is the other side: it waits for its own limits before a call is sent, and for as long as servers ask for.
package grpclimit
