// Package driver is the contract between ration.Limiter and a store of counts. It is written for people who write a
// store; users of limits need package ration only.
//
// A store has one working method, [Store.Apply]. It gets a batch of transactions, decides each whole or not at all, and
// writes the answers into the fields marked result.
//
// # What the Limiter guarantees
//
//   - Every Txn is valid: numbers are within ±(2^53 − 1), keys and ids within their lengths, one to [MaxOps] ops, all with
//     different keys, all kinds and features within [Info].Caps.
//   - Apply's context has a deadline, unless Info.Instant is set.
//   - The batch and everything in it belong to the store until Apply returns; nobody else reads or writes it. Strings
//     may be kept. Result fields are zero on entry.
//   - Close is called once, after the last Apply has returned (for an Instant store, possibly while Apply runs).
//
// # What a store must do
//
//   - Decide each Txn in one atomic step: its check, its charge and its answer belong to one moment, [Txn.At], and no
//     other caller sees half of it. A refused Txn changes nothing.
//   - Use its own clock, read once for a Txn, unless Txn.Now is set.
//   - Return soon after ctx is done, whatever its back end does.
//   - Give one Txn's trouble to that Txn ([Txn.Err]) and decide its neighbours; return an error from Apply only if
//     nothing is known of the whole batch.
//   - Wrap [ErrNotApplied] where surely nothing was changed; any other error means that it may have been charged.
//   - Obey the rules of docs/semantics.md. A store that can run Go where its data is gets all of them from [Run].
//
// Package storetest is the definition of a correct store; run it against yours.
package driver
