package model

import v1 "k8s.io/api/core/v1"

// Terminal reports whether a phase is final.
func Terminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }
