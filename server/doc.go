// Package server is the daemon of ration as a library: its configuration, its services over HTTP and gRPC, and its command line.
//
// The program ration is [Main] with the stores it links; server/cmd/ration/main.go is a page to copy for a program with a
// store of one's own. To serve inside another program, read a [Config] (or start from [Defaults]), edit it, and give it to
// [New]:
//
//	cfg := server.Defaults()
//	cfg.Store = "memory:"
//	s, err := server.New(ctx, cfg, &server.Options{Stores: map[string]server.OpenFunc{"memory": server.OpenMemory}})
//	...
//	mux.Handle("/v1/", s.Handler())
//	defer s.Close()
//
// What lives here: configuration from file, environment and flags ([Config]), opening stores by URL ([OpenFunc]), the
// listening server ([Server]) and the commands ([Command]). The HTTP API itself is package httpapi, gRPC's is package grpcapi,
// Envoy's rate limit service package envoyrls; the SQLite store, which brings a driver along, is opened by package
// server/sqlite, so that a program without it does not link it.
package server
