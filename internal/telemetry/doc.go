// Package telemetry shows operators how the program does: metrics in the Prometheus format, health and readiness over
// HTTP, profiles of the Go runtime, and OpenTelemetry traces.
//
// It imports no other package of ours. What is measured comes in through the methods of Metrics, which have the form of
// the packages' Observe options, and through the functions of Sources, which are asked when somebody scrapes. Nothing
// is global: a program may have several Metrics.
//
// # Names and secrets
//
// Labels are methods, codes, kinds of calls and states: their number is fixed. Neither labels nor spans carry names of
// pods, images or registries, commands, environments, or texts of errors of the engine.
package telemetry
