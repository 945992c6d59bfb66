// Package routers tests guards of package httplimit in front of routes of chi, gin, echo and fiber with real clients, and
// what they answer with a library for structured fields.
package routers
