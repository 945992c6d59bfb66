// Package activity remembers, in bounded memory, what a server has decided lately: how often each limit allowed and refused,
// which keys were refused and used most, and some of the last decisions. The dashboard and "ration top" show it.
//
// It is no part of any decision and is lost with the process. Keys are kept in memory only, for minutes, and leave the
// package as fingerprints: HMAC-SHA-256 under a secret. What must not stand here: anything that a limit depends on, and anything
// that grows with the number of keys.
package activity
