// Package deploy has no code: it is a module so that what is deployed can be tested with Prometheus' own parsers, which nothing
// else shall depend on.
package deploy
