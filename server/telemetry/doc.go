// Package telemetry has Prometheus metrics, and spans of OpenTelemetry, of a ration.Limiter: for programs that use the library,
// and for the server.
//
//	m := telemetry.New(nil)
//	prometheus.MustRegister(m)
//	limiter := ration.New(store, &ration.Options{Observer: m.Observer()})
//	m.Watch(limiter, store)
//
// docs/telemetry.md lists the metrics. Labels are names of limits and outcomes, never keys. So the number of series does not
// depend on what is limited: a limit that was written as text, or whose name is not one of Options.Limits, has the label
// "other".
package telemetry
