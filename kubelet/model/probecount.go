package model

import "k8s.io/apimachinery/pkg/types"

// ProbeCount is how often one probe of one container ended in one way, since the kubelet first probed the pod.
type ProbeCount struct {
	Namespace, Pod string
	PodUID         types.UID
	Container      string
	// Probe is Liveness, Readiness or Startup; Result successful, failed or unknown, for a probe that could not be made.
	Probe, Result string
	Count         uint64
}
