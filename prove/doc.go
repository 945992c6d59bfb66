// Package prove looks for broken promises in what concurrent callers were answered: histories of calls are recorded and
// checked against a model. It has no code to import; its tests are the runner.
//
//	RATION_ENGINES=1 go test ./...                 # seconds
//	RATION_ENGINES=1 RATION_LONG=10 go test ./...  # minutes
package prove
