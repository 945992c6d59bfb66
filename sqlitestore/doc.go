// Package sqlitestore keeps the counts of a ration.Limiter in an SQLite file. Every process of one machine that opens the
// file sees the same counts, and with the default [Options] an acknowledged charge outlives a crash of the process and of
// the machine.
//
// The package names no driver: it is given a *sql.DB that was opened with the path of the file and nothing else, and sets
// what it needs on its own connections. It is tested with modernc.org/sqlite and github.com/ncruces/go-sqlite3, from the
// module below this one, so that neither enters a user's go.mod. Another driver works if SQLite in it is of version 3.37
// or later and its errors tell SQLite's code by a method or a field named Code.
//
//	db, err := sql.Open("sqlite", "limits.db")
//	...
//	store, err := sqlitestore.New(ctx, db, nil)
//	...
//	limiter := ration.New(store, nil)
//	defer limiter.Close() // closes the store, not db
//
// # How it works
//
// One connection writes: a call of Apply is one BEGIN IMMEDIATE … COMMIT, which loads the rows of all its transactions in
// a statement or a few, decides them by driver.Run at the clock read inside the transaction, and saves what changed in as
// many. What changes nothing, such as a refusal, is not committed. A few more connections answer batches that only
// read. Calls of one process queue for the writer in order; processes take turns.
//
// # The file
//
// The file is put into WAL mode, so it must lie on a local file system, and has tables whose names begin with ration_. It
// may hold tables of others, but their long transactions make callers here wait. A file that a later version of this
// package has changed is refused with [ErrSchema]. A database in memory is refused with [ErrNotShared]: each connection
// would have one of its own. Processes may use different drivers on one file, but not one process two: SQLite's locks are
// those of the process, and what one driver closes would unlock what the other has locked.
//
// # Expired rows
//
// Rows past their expiry are removed in the background, in steps of at most a few milliseconds of the writer's time, by one
// of the processes that have the file open. The server's clock says when. A row that was last written at an injected clock
// (driver.Txn.Now) is removed when what was left of its life then, and a day more, has passed on the server's clock, or
// when [Store.Sweep] is called with a time of the injected clock: a clock that stands still in a test, or runs through an
// old log, loses no state.
//
// # Reservations and ids
//
// Their records are rows too, in the same commit as the charge. None goes before its time, whatever else the file holds.
// Each process looks for holds that have expired about every second, which costs a read of an index, and ends those it finds
// in steps of a few; so it does not matter which process made a hold, or whether that one still runs. A hold that was last
// changed at an injected clock expires by the rule above: by a Sweep at a time of that clock, or after a day more.
package sqlitestore
