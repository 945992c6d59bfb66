package redisstore

import "time"

// Options of [New], [Open] and of package goredis. The zero value and nil are the defaults.
type Options struct {
	// Prefix begins the name of every key. Default "ration:". Two stores of one prefix share all counts.
	Prefix string

	// Tags is how many places there are on a Cluster: the hash tag of a key is a number below it, from a hash of the key's
	// group, or of the key if it has none. A power of two up to 16384, default 256. It is fixed for a prefix: with another
	// number all keys have other names, and counts begin anew.
	Tags int

	// WaitReplicas is on how many replicas a charge must be before it is acknowledged (WAIT). One that is not there after
	// WaitTimeout was made, but has an error for which errors.Is(err, ration.ErrOutcomeUnknown) holds. Each call then takes
	// a connection for itself. Default 0: nothing is waited for.
	WaitReplicas int

	// WaitTimeout is how long WaitReplicas waits, at most. Default a second.
	WaitTimeout time.Duration

	// Durable makes New check that every primary writes each charge to disk before it answers (appendonly yes, appendfsync
	// always), evicts nothing, and has no more replicas than WaitReplicas says. If so, the store says that it is durable; if
	// not, New fails.
	Durable bool

	// SweepEvery is the time between two rounds that end expired reservations. Of all processes one at a time does it; all
	// else expires in Redis by itself. Default a second; below zero: no rounds are made, and somebody calls [Store.Sweep].
	SweepEvery time.Duration
}

func (o *Options) resolved() Options {
	var r Options
	if o != nil {
		r = *o
	}
	if r.WaitTimeout <= 0 {
		r.WaitTimeout = time.Second
	}
	return r
}
