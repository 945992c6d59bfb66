// Package engines starts real servers for tests: PostgreSQL, PgBouncer, Redis, Valkey, Redis Cluster and Sentinel, nginx,
// Caddy, each on free ports of the loopback address, with its data in a temporary folder. It is for tests only and imports the
// standard library only. On systems other than Linux it is empty.
//
//	pg := engines.Postgres(t, nil)     // ends with the test
//	pg.URL                             // postgres://postgres@127.0.0.1:23456/postgres?sslmode=disable
//	pg.Kill(); pg.Restart()            // the same data, the same port
//
//	cluster, err := engines.StartCluster(nil) // the same without a test, for TestMain; the caller calls Close
//
// [Curl], [Wrk], [Chromium], [RedisCLI] and [Buf] are programs, and answer only where they are.
//
// The functions that take a test call [Require] first: servers are started only where RATION_ENGINES=1 says so, as ./test
// does. [Wanted] answers that for TestMain. A program that is missing is an error which names .ci/engines.
//
// A server ends with the process that started it, however that ends.
package engines
