// Package redisscript is what redisstore and upstashstore share: the Lua scripts that decide in Redis, the names of keys,
// how a batch becomes script calls and how their answers become results. It knows of no Redis client: a [Client] sends the
// commands.
//
// A script restates package arith only as far as "does it fit, and the new row". Retry and reset times are computed here,
// from the rows that it answers.
package redisscript
