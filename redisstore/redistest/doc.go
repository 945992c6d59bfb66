// Package redistest compares redisstore with another library over the same server. It is a module of its own, so that the
// other library is in no go.mod that users see.
package redistest
