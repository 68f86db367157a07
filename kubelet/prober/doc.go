// Package prober runs the liveness, readiness and startup probes of containers and keeps their results.
package prober
