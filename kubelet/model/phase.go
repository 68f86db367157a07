package model

import v1 "k8s.io/api/core/v1"

// Terminal says whether a pod in this phase is over: there is no way back from it.
func Terminal(phase v1.PodPhase) bool { return phase == v1.PodSucceeded || phase == v1.PodFailed }
