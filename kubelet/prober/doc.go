// Package prober runs the liveness, readiness and startup probes of containers and keeps their results
// (pkg/kubelet/prober with its results, and pkg/probe).
//
// Each probe of each running container has a goroutine; a container that is started again is a new one. Until a startup
// probe has succeeded the other two wait. A probe that could not be made (the runtime does not answer) counts neither
// as success nor as failure.
package prober
