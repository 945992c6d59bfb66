// Package httplimit guards HTTP handlers with limits, and paces HTTP clients.
//
//	perUser := ration.Rule{Name: "per-user", Limit: ration.TokenBucket{Burst: 20, Refill: ration.PerMinute(60)}}
//	guard, err := httplimit.New(limiter, []httplimit.Policy{{Limit: perUser, Key: httplimit.ByUser()}}, nil)
//	…
//	http.Handle("/api/", guard(api))
//
// New makes a middleware for net/http. All policies of a request are charged in one decision, or none. A refused request is
// answered with 429, Retry-After, RateLimit fields and a body of application/problem+json; one that nobody could decide with
// 503, never with 429.
//
// Transport is the other side: an http.RoundTripper that waits for its own limits, and for what servers tell it to.
//
// docs/http.md is the guide: keys behind proxies, counting by outcome, dialects of headers, adapters for routers.
package httplimit
