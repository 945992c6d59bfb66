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
package client
