package cgroup

import (
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// name is a cgroup's name, independent of the driver: its elements from the root.
type name []string

func (n name) child(element string) name { return append(append(name{}, n...), element) }

// cgroupfs is the name in the format of the driver cgroupfs, a path.
func (n name) cgroupfs() string { return "/" + path.Join(n...) }

// slice is the systemd unit of the name. Dashes separate the elements, so dashes in elements become underscores, as in
// the kubelet.
func (n name) slice() string {
	var parts []string
	for _, element := range n {
		parts = append(parts, strings.ReplaceAll(element, "-", "_"))
	}
	return strings.Join(parts, "-") + ".slice"
}

// systemd is the name in the format of the driver systemd, a path of slices. Each slice's name contains the names of
// all its ancestors.
func (n name) systemd() string {
	full := "/"
	for i := range n {
		full = path.Join(full, n[:i+1].slice())
	}
	return full
}

// podPrefix is the prefix of the last element of a pod's cgroup.
const podPrefix = "pod"

func podElement(uid types.UID) string { return podPrefix + string(uid) }

// classElement is the element of a QoS class. Guaranteed pods have none.
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
