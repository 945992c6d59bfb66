// Package wire is what package client and the server say to each other: driver batches as JSON, for POST /v1/apply, and
// the codes of errors, which all endpoints share.
//
// A request is {"txns": [Txn…]}, an answer {"txns": [Answer…]} in the same order. The fields are those of package driver,
// in snake case with their unit: times are microseconds (_us). Keys and groups are base64 (they are any bytes), a Space is
// text. What is zero may be left out. Gain, Unit and Tick of a bucket are not sent: who receives computes them.
//
//	{"txns": [{"verb": "take", "ops": [
//		{"space": "|b|chat|", "id": "YWxpY2U=", "kind": "bucket", "size": 20, "rate": 10, "span_us": 60000000, "cost": 1}]}]}
//
//	{"txns": [{"allowed": true, "at_us": 1767225600000000, "ops": [
//		{"allowed": true, "times": 1, "used": 1, "reset_at_us": 1767225606000000}]}]}
//
// The Space of a key carries the namespace of the Limiter that made it. Nobody on the way adds or takes anything, so two
// clients with two namespaces stay apart, and two with one share their counts.
//
// A hold made for a store that has its data in several places (driver.Router) is answered with its id as it is found there:
// the server knows the places, the client does not.
//
// POST /v1/holds asks for a page of open holds, sorted by id, and POST /v1/sweep for a sweep.
//
// A field that the receiver does not know is an error, in requests: it could mean a charge that is decided otherwise than
// the sender thinks. [Check] holds a Txn to what package driver lets a store rely on.
package wire
