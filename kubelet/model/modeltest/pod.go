// Package modeltest has helpers for tests of the kubelet core: pods from words, and config maps and secrets in memory.
package modeltest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Pod makes the pod default/pod from words: "init:a", "side:b" and "app:c" are containers, the second a sidecar. A
// string may have several words.
func Pod(policy v1.RestartPolicy, words ...string) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}}
	pod.Name, pod.Namespace, pod.UID = "pod", "default", "uid"
	for _, word := range strings.Fields(strings.Join(words, " ")) {
		kind, name, _ := strings.Cut(word, ":")
		c := v1.Container{Name: name, Image: "image"}
		switch kind {
		case "init":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case "side":
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}
