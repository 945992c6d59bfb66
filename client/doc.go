// Package client is a store on another machine: the one behind a ration server, reached over HTTP. With it a program has
// the whole of package ration and shares its counts with everybody who asks that server.
//
//	store, err := client.New("http://127.0.0.1:7531", nil)
//	if err != nil { … }
//	limiter := ration.New(store, nil)
//	defer limiter.Close()
//
// The Limiter's namespace and key secret do their work before anything is sent. To count together with the limits that
// the server decides itself, give the Limiter the server's.
//
// A call whose answer got lost is never sent again by this package: it may have been charged, and
// ration.ErrOutcomeUnknown says so. (The Limiter repeats what has an id, which happens once.) Nor are redirects followed.
//
// The ids of reservations are shown with a number and a dot in front: a server whose store has its data in several places
// finds them by it. The number follows from the key of the first charge. So an id given to TakeOnce or Reserve is another
// one with another first key, and another one in the HTTP API. Settle and its siblings take the ids that were shown, by
// whichever way.
package client
