// Package httpapi is the HTTP/JSON API of a ration server, as a handler: limits decided over the network, for programs in
// any language. The document of OpenAPI at GET /openapi.json says the same for machines.
//
//	$ curl --json '{"key": "alice", "limit": "bucket 10/1m burst 20"}' http://127.0.0.1:7531/v1/take
//	{"allowed":true,"never":false,"degraded":false,"name":"","limit":20,"used":1,"remaining":19,
//	 "retry_after_ms":0,"reset_after_ms":6000,"at_us":1767225600000000}
//
// # Endpoints
//
//	POST /v1/take       charge a limit, or refuse                    a decision
//	POST /v1/peek       answer as take would, and change nothing     a decision
//	POST /v1/take-all   charge several limits, all or none           a decision, with index and each
//	POST /v1/refund     give back what a take charged                {"given": 1}
//	POST /v1/reset      forget what was counted for a key and limit  {"done": true}
//	POST /v1/forget     forget all that was counted for a key        {"done": true}
//	POST /v1/hit        add to a bare counter                        {"count": 3, "left_ms": 60000}
//	POST /v1/reserve    charge several limits, all or none, and hold a decision, with index, each, id and expires_at_us
//	POST /v1/reservations/{id}/settle    end it with what was used   {"done": true}
//	POST /v1/reservations/{id}/cancel    end it, and give back       {"done": true}
//	POST /v1/reservations/{id}/renew     move its expiry             {"expires_at_us": …}
//	POST /v1/reservations/{id}/progress  report what was used so far {"ok": true}
//	GET  /v1/reservations  those that are open, by id                {"reservations": […], "more": false}
//	POST /v1/apply      a driver batch, for package client           see internal/wire
//	POST /v1/holds      open holds, for package client               see internal/wire
//	POST /v1/sweep      remove what has expired, for package client  see internal/wire
//	GET  /v1/check/{limit}  whether a request may pass, for proxies  status 200 or 429; see below
//	POST /v1/overrides/set     other numbers of a limit for a key    the override
//	POST /v1/overrides/get     the one of a limit for a key          the override
//	POST /v1/overrides/remove  end it                                {"removed": true, "within_ms": 2000}
//	GET  /v1/overrides  all of them, by id                           {"overrides": […], "more": false}
//	GET  /v1/limits/{limit}/candidate  what a limit on trial would have done
//	POST /v1/admin/reload   read the configuration anew              {"done": true}
//	GET  /v1/activity   what the server decided lately               see below
//	GET  /v1/activity/stream  the same each second                   server-sent events
//	POST /v1/activity/key     one key under all named limits         {"fingerprint": "…", "limits": […]}
//	GET  /v1/limits     the named limits                             {"limits": [{"name": "chat", "limit": "bucket 10/1m burst 20"}]}
//	GET  /healthz       whether the store answers                    {"status": "ok", "version": "…"}
//	GET  /openapi.json  this, for machines
//
// A body is one JSON object, sent as application/json, of at most 64 KiB.
//
// # Key
//
// Who is counted is given in one of two fields:
//
//	"key": "alice"                  text
//	"key": ["award", "123", "456"]  parts; different lists are different keys, whatever the parts hold
//	"key": null                     the count that everybody shares
//	"key_base64": "/wA="            a key of any bytes, or a list of such parts
//
// A key is 1 to 1024 bytes in all, and no part is empty: leave out what is absent. "group": "acme" places keys together on
// a cluster, and is part of the key.
//
// # Limit
//
//	"limit": "chat"                                   a limit with a name, from the server's configuration
//	"limit": "bucket 10/1m burst 20"                  a limit's text
//	"limit": "bucket 10/1m burst 20", "name": "chat"  the same under a name: limits of different names never share a count
//
// The texts are those of ration.ParseLimit: "bucket 10/1m burst 20", "sliding 3/24h" ("sliding 24h" is one in 24h),
// "fixed 100/1m", "budget 5000000/month Europe/Berlin from day 15 06:00"; and "concurrent 5 lease 30s", for reserve, peek and
// reset.
//
// # Other fields
//
//	take, peek, each of "charges"              "cost": 1         what is charged; default 1. 0 asks, and charges nothing
//	take, take-all, reserve                    "id": "…"         makes the call happen once; 1 to 128 bytes
//	take-all, reserve                          "charges": […]    1 to 64 objects with key, limit and cost
//	reserve                                    "ttl_ms": 600000  how long it is held if nobody renews it; default 10 min
//	                                           "refund_on_expiry": false
//	settle, progress                           "amounts": […]    see below
//	renew                                      "ttl_ms": …       from now
//	refund                                     "cost": 1         what goes back; default 1
//	                                           "at_us": …        at_us of the decision that charged
//	hit                                        "window_ms": …    how long a window lasts that this call opens
//	                                           "n": 1            what is added; default 1. 0 reads, less takes back
//
// # Decision
//
//	allowed         it was charged (take), or would have been (peek)
//	never           the cost is greater than the limit: it can never pass
//	degraded        the store could not tell, and the limit's policy is to allow then
//	name            of the limit; "" if it has none
//	limit           its size: burst or limit
//	used            what counts against it after this call
//	remaining       what is left: limit − used, at least 0
//	retry_after_ms  how long until this cost would pass; 0 if it passed; rounded up
//	reset_after_ms  how long until the limit is unused again, if nothing more is taken; rounded up
//	at_us           when it was decided, by the store's clock, in microseconds since 1970 UTC
//
// take-all's answer is a decision about one of its charges, number index from 0: if refused, the refusal that lasts
// longest, with the longest retry_after_ms of all; else the limit with the smallest part left. each has the decision of
// every charge, in the order given: allowed there says that it alone would have passed.
//
// # Ids
//
// With an id, take, take-all and reserve happen once: for ten minutes (a reservation: for as long as it is known) the same
// id with the same charges answers the same, and charges once; with others it is the error id_reused. Only what was
// admitted is remembered: a refusal is decided anew. So after outcome_unknown, or no answer at all, send the same again.
//
// # Reservations
//
// reserve charges an estimate, and settle, after the work, the truth. Its answer is that of take-all, with an id and
// expires_at_us if something is held: not if it was refused, or degraded. The id goes into the paths of the other calls,
// percent-encoded, from any client. It ends once: the first of settle, cancel and its expiry wins. The same end again
// answers the same; settle after another end is the error ended, cancel after any end does nothing.
//
//	settle    what was really used, in "amounts": one number for each charge, or one for all if all were equal; without
//	          amounts what was reserved. What is less goes back, what is more is charged too, also beyond the limit. For a
//	          day after the expiry it still charges the truth
//	cancel    gives back what progress has not reported. The body is {}
//	renew     moves the expiry to "ttl_ms" from now, 1000 to 31 days; a limit of the kind concurrent makes it at most its lease
//	progress  what was used so far, in "amounts", in total; renews as well. What is more than was reserved is charged at once;
//	          "ok" says whether it fits, so whether to go on
//
// Two charges that share a count are invalid_limit in a reservation: make them one. At its expiry a reservation stays charged,
// unless it was made with "refund_on_expiry": true; then what progress has not reported goes back, about a second
// later. There is no waiting for a turn over HTTP: ask again after retry_after_ms.
//
// GET /v1/reservations lists those of the server's namespace by id, a page of "max" (100, at most 500) after the id
// "after", both in the URL's query. Each has id (or id_base64, if package client gave it one that is no text), at_us,
// expires_at_us, and charges with name, limit and charged. Who was charged is not shown.
//
// # Who is calling
//
// That is the server's matter: package access. Where it asks, the codes unauthorized and token_expired (401), forbidden (403) and
// too_many_requests (429) are of calls that may not be made, and charge nothing.
//
// # Checks
//
// GET /v1/check/{limit} is for proxies that ask before they pass a request on (nginx auth_request, Traefik ForwardAuth, Caddy
// forward_auth). Which limits can be asked for, and which headers say whose the request is and what it costs, is the
// configuration's matter: Options.Checks. Neither query nor body is read. The answers are
//
//	200  it may pass, and is charged
//	429  it may not; 403 if the check says so, for proxies that know no 429
//	403  it has no key (no_key), and the check does not say what then
//	503  it could not be told, or an outage has made the limit smaller and this is beyond it: never 429
//	400  the header with the cost is none (invalid_cost); 404: there is no such check
//
// with RateLimit and RateLimit-Policy (draft 11: "chat";r=19;t=6 and "chat";q=20;w=120), and Retry-After if waiting helps.
// Bodies of other answers than 200 are application/problem+json; those of 429 and 503 have the type of the IANA registry, and
// violated-policies.
//
// # Activity
//
// GET /v1/activity is for people who look at a server, if it records what it decides: counts of each limit since the start and
// by the second, which keys were refused and allowed most, some of the last decisions, and how the store is. It is of this server
// alone and gone with it. Keys are shown as fingerprints, 16 letters and digits, unless the server was told to show them. POST
// /v1/activity/key and reset take a "fingerprint" that is shown now in place of a key. A fingerprint is of no use elsewhere.
//
// # Status and errors
//
// A decision is status 200, allowed or not. Any other status is an error: it could not be told. Its body is
// application/problem+json with a stable code, a detail that says what to do, and charged: "no" if surely nothing was
// charged, else "unknown". pointer and offset say which part of the body was wrong.
//
//	400  invalid_json invalid_unicode invalid_number unknown_field duplicate_field missing_field wrong_type
//	     invalid_key invalid_limit unknown_limit invalid_cost invalid_time invalid_id invalid_amounts cross_group
//	     unexpected_query incomplete_body invalid_override
//	403  no_key (of a check)
//	404  not_found, no_override, no_trial, no_reservation (none of this id is known: it never was, or ended a day ago)
//	405  method_not_allowed, with the header Allow
//	409  overflow (a count would pass 2^53 − 1), ended (the reservation ended in another way), id_reused, invalid_config (of a
//	     reload; the server's log says what is wrong)
//	413  body_too_large
//	415  unsupported_media_type
//	429  quota_exceeded (of a check)
//	500  corrupt (the store holds something else under this key)
//	501  unsupported (the store cannot do this)
//	503  unavailable, full, overloaded, closed: nothing was charged, try again later; with the header Retry-After
//	504  outcome_unknown: it may have been charged, so a blind repetition may charge twice
//
// A transaction in a batch of apply has an error of its own, in its place in an answer of status 200. Its code may also be
// invalid_txn or clock (the store's clock is outside the periods that were sent).
//
// Input is read strictly, and what is not exactly right charges nothing: unknown, mistyped and doubled fields, numbers
// that are not whole or are written with a point or an exponent or are beyond ±(2^53 − 1), text that is not UTF-8 or has
// lone surrogates, anything after the object, a query in the URL. Keys and ids are in no error and no log.
package httpapi
