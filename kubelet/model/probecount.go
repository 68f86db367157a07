package model

import "k8s.io/apimachinery/pkg/types"

// ProbeCount counts the results of one probe of one container since the kubelet first probed the pod.
type ProbeCount struct {
	Namespace, Pod string
	PodUID         types.UID
	Container      string
	// Probe is Liveness, Readiness or Startup. Result is successful, failed, or unknown for a probe that could not run.
	Probe, Result string
	Count         uint64
}
