// Package telemetry shows the state of the program to operators: metrics in the Prometheus format, health and readiness
// over HTTP, profiles of the Go runtime, and OpenTelemetry traces.
//
// It imports no other package of ours. The methods of Metrics count events, and have the types of the Observe options
// of other packages. The functions of Sources are called at each scrape. There is no global state: a program may have
// several Metrics.
//
// # Names and secrets
//
// Labels are methods, codes, kinds of calls and states, so their number is fixed. Neither labels nor spans have names
// of pods, images or registries, commands, environments, or error texts of the engine.
package telemetry
