// Package pgstore keeps the counts of a ration.Limiter in PostgreSQL: exact over all programs that reach the database, and as
// durable as it.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db.example/app")
//	...
//	store, err := pgstore.New(ctx, pool, nil)
//	...
//	limiter := ration.New(store, nil)
//	defer limiter.Close() // closes the store, not the pool
//
// # How it works
//
// A batch is one statement, which calls a function of the store's schema: one transaction and one round trip, whether it
// holds one decision or a hundred. The function looks first. What does not pass is answered from that look: it writes
// nothing and locks nothing. What passes is written onto the row that was seen, or decided again if that has changed. The
// function says what fits and what the new row is; times of retry and reset are computed in Go from the row in its reply.
//
// The clock is the database's, read once for a batch before any lock is waited for, unless driver.Txn.Now gives another.
//
// # Set-up
//
// [New] creates what it needs, or finds it: see [Migrate] and [SQL] for roles that may not create. It works in a schema of
// any name, through PgBouncer in transaction mode, in every mode of pgx and under every default isolation level.
// docs/postgres.md is the guide for operators.
package pgstore
