// Package envoyrls is Envoy's rate limit service, version 3, on a Limiter: a replacement for envoyproxy/ratelimit that reads
// the same configuration.
//
//	cfg, err := envoyrls.Load([]string{"/etc/ration/envoy"}, false)
//	...
//	service, err := envoyrls.New(limiter, store, cfg, nil)
//	...
//	rlsv3.RegisterRateLimitServiceServer(server, service)
//
// A file describes one domain: descriptors by key and value, nested, each with a rate_limit or without. A descriptor of a
// request has to match a path of the same depth; at each level key and value go first, then values with * in the order of
// the file, then the key alone. Beyond what envoyproxy/ratelimit reads, a file may have:
//
//	all_or_nothing: false   at the top; default true: what one descriptor refuses is charged to none
//	rate_limit:
//	  unit_multiplier: 15   so many units
//	  algorithm: calendar   or fixed_window (the default), sliding_window, token_bucket
//	  burst: 20             of a token_bucket; default requests_per_unit
//	  zone: Europe/Berlin   of a calendar; default UTC
//	  from: day 15 06:00    of a calendar: where its periods begin, as in a limit's text
//	  lease: 100            have the store charged with up to so many at once while a key is busy
//
// docs/envoy.md has the rest, and where this differs from envoyproxy/ratelimit on purpose.
package envoyrls
