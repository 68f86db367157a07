package cgroup

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// name is a cgroup by its elements from the root; no driver's spelling.
type name []string

func (n name) child(element string) name { return append(append(name{}, n...), element) }

// cgroupfs spells the name as a path.
func (n name) cgroupfs() string { return "/" + path.Join(n...) }

// slice is the last element's unit at systemd. Dashes separate the elements there, so those inside them become
// underscores, as the kubelet has it.
func (n name) slice() string {
	var parts []string
	for _, element := range n {
		parts = append(parts, strings.ReplaceAll(element, "-", "_"))
	}
	return strings.Join(parts, "-") + ".slice"
}

// systemd spells the name as a path of slices, each of which names its ancestors.
func (n name) systemd() string {
	full := "/"
	for i := range n {
		full = path.Join(full, n[:i+1].slice())
	}
	return full
}

// podPrefix begins the last element of a pod's name.
const podPrefix = "pod"

func podElement(uid types.UID) string { return podPrefix + string(uid) }

// classElement is the part of a class in the name of its tree; the guaranteed pods are at the top.
func classElement(class v1.PodQOSClass) string {
	if class == v1.PodQOSGuaranteed {
		return ""
	}
	return strings.ToLower(string(class))
}

func (m *Manager) classes() []name {
	return []name{m.top, m.top.child(classElement(v1.PodQOSBurstable)), m.top.child(classElement(v1.PodQOSBestEffort))}
}

func (m *Manager) podName(pod *v1.Pod) name {
	parent := m.top
	if element := classElement(model.QOS(pod)); element != "" {
		parent = parent.child(element)
	}
	return parent.child(podElement(pod.UID))
}
