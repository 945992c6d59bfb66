// Package respapi serves CL.THROTTLE, the command of the Redis module redis-cell, over Redis's protocol: a program that uses
// it with any Redis client can use a ration server in its place, on any of ration's stores.
//
//	$ redis-cli -p 7533 CL.THROTTLE user:42 15 30 60
//	1) (integer) 0     0: allowed, 1: limited
//	2) (integer) 16    the limit: max_burst + 1
//	3) (integer) 15    what is left
//	4) (integer) -1    seconds until it would pass; -1 if it passed, or never will
//	5) (integer) 2     seconds until the limit is unused again
//
// # Commands
//
//	CL.THROTTLE key max_burst count period [quantity]
//	CL.THROTTLE key limit [quantity]
//
// The first form is that of redis-cell: a bucket of max_burst + 1 that refills count in period seconds; quantity, 1 if absent,
// is charged whole or not at all, and 0 asks. It is the limit "bucket count/period burst max_burst+1" of the other APIs, on
// the same count. In the second, limit is a name of the configuration, or a limit's text, of any kind but concurrent.
//
// Seconds are rounded up, so a lone caller who waits for them is admitted. Numbers are whole and have digits only.
//
// There are also PING, ECHO, HELLO (protocols 2 and 3), SELECT 0, CLIENT, COMMAND, INFO and QUIT, as far as clients need them
// to connect. Nothing else of Redis is here.
//
// Where Options.Guard asks who is calling, a connection has a client certificate that is known, or begins with AUTH token, AUTH
// user token, or HELLO protocol AUTH user token; user is default or the token's name. Elsewhere AUTH is refused, as there are no
// passwords.
//
// # Errors
//
//	-ERR …          the command was wrong; nothing was charged
//	-NOAUTH …       the connection has not said who it is
//	-WRONGPASS …    the token is not known, or has expired
//	-NOPERM …       the caller may not do this
//	-UNAVAILABLE …  it could not be told: the store's trouble, or an outage has made the limit smaller and this is beyond it.
//	                The text says if it may have been charged
//
// A refusal is never an error, and an error never a refusal. Clients that send a command again by themselves when they get no
// answer may charge twice; switch that off.
//
// # Pipelines
//
// Commands that arrive together are decided together, and answered in their order. Those of one key are decided in their
// order; equal ones, and those of different keys, share round trips to the store.
//
// # Bounds
//
// A command has at most 64 arguments and 16 KiB. It must arrive whole within 15 s, answers must be taken within 15 s, and a
// connection that says nothing for ten minutes is closed. Commands in the form of a line of text are not read, so that no web
// page can make a browser send one.
package respapi
