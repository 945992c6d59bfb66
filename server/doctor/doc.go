// Package doctor looks at a store and says what an operator should change before relying on it: whether it is reached, and what
// stands in the way if not; whether counts are exact under a race; how far and how skewed it is; who shares it; and what the
// store says of its own set-up.
//
// [Run] does it for a [Subject], which packages server/postgres, server/redis and server/sqlite make of a configuration.
// Package server has the command. docs/doctor.md lists every finding; [Catalogue] is that list.
//
// It writes only under keys of its own, in namespace [Namespace], and removes them.
package doctor
