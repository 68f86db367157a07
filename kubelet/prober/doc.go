// Package prober runs the liveness, readiness and startup probes of containers and keeps their results
// (pkg/kubelet/prober with its results, and pkg/probe).
//
// Each probe of each running container has a goroutine. A restarted container has new probes. The liveness and
// readiness probes wait until the startup probe has succeeded. A probe that cannot be made, because the runtime does
// not answer, counts neither as success nor as failure.
package prober
