// Package telemetry shows operators how the program does: metrics in the
// Prometheus format, health and readiness over HTTP, profiles of the Go runtime,
// and OpenTelemetry traces.
//
// It knows no other room. What is to be seen comes in through the methods of
// Metrics, which have the form of the rooms' Observe options, and through the
// functions of Sources, which are asked when somebody scrapes. Nothing is
// global: a program may have several Metrics.
//
// # Names and secrets
//
// Labels are methods, codes, kinds of calls and states: their number is fixed.
// Neither labels nor spans carry names of pods, images or registries, commands,
// environments, or texts of errors of the engine.
package telemetry
