// Package access says who may call a ration server, and what each caller may do. It is what the server's protocols have in
// common: tokens, client certificates, scopes, the limits on the server itself, and the audit log.
//
//	guard, err := access.New(&access.Options{Tokens: lines, TokensFile: "tokens"})
//	mux.Handle("/metrics", access.Require(access.Read)(metrics))
//	handler := guard.Handler(mux)
//
// A [Guard] finds out whose a call is, and puts a [Caller] into its context. What answers the call asks the Caller: once for
// the verb, by [Require], and once more for the limit, when it has read which one is meant ([Allow]). Without tokens and
// without certificates access is off, and every caller may do everything.
//
// # Tokens
//
// A token is 256 random bits as text, made by [NewToken]. The server keeps its SHA-256, never the token; see [Token] for the
// line that stands for one in a file. What a caller presents is hashed and compared with all tokens, each in constant time.
//
// # Scopes
//
// A scope is VERB, VERB:LIMIT, VERB@NAMESPACE or VERB:LIMIT@NAMESPACE:
//
//	read             peeking, listing limits and reservations, metrics, the dashboard
//	take             charging and what belongs to it: take, refund, hit, checks, reservations
//	reset            reset and forget
//	admin            all of these, and changing the server: overrides, reload
//	take:chat        the configured limit chat alone; not limits that a caller brings as text
//	take:team-a.*    the configured limits whose names begin so
//	take@shop        programs that count by themselves, by package client, in the namespace shop
//	admin@*          every namespace
//
// Without @ a scope is about the server's own namespace. A verb does not contain another, but for admin.
package access
