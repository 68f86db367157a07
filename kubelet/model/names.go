package model

import (
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of sandboxes and containers, as every kubelet sets them; crictl and runtimes read them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	// LabelOwner holds the name of the kubelet core that made the sandbox or container. A kubelet owns its runtime and
	// kills pods that it does not know; ours touches only those that carry its own name, so that it may share a
	// runtime with another.
	LabelOwner = "io.criadapter.kubelet-core"
)

// Annotations of containers, as every kubelet sets them: a kubelet that restarts finds there what it must remember.
const (
	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPodDeletionGracePeriod   = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationPodTerminationGrace      = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationContainerPorts           = "io.kubernetes.container.ports"
	// AnnotationResources is ours: the requests and limits that a container was made with, in JSON.
	AnnotationResources = "io.criadapter.kubelet-core/resources"
)

// Annotations of pods, as every kubelet sets them, and one of ours.
const (
	AnnotationConfigSource = "kubernetes.io/config.source"
	AnnotationConfigHash   = "kubernetes.io/config.hash"
	AnnotationConfigSeen   = "kubernetes.io/config.seen"
	AnnotationConfigMirror = "kubernetes.io/config.mirror"
	// AnnotationManifest is the path of the file that a static pod comes from.
	AnnotationManifest = "io.criadapter.kubelet-core/manifest"
)

// Sources of pods, the values of AnnotationConfigSource.
const (
	SourceFile = "file"
	SourceHTTP = "http"
	SourceAPI  = "api"
)

// FullName is name_namespace: static pods of one full name run one after the other, whatever their UIDs.
func FullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }

// Key is namespace/name, as logs show a pod.
func Key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// Keys are the keys of several pods.
func Keys(pods []*v1.Pod) []string {
	keys := make([]string, len(pods))
	for i, pod := range pods {
		keys[i] = Key(pod)
	}
	return keys
}

// IsStatic says whether the pod comes from a file or a URL and not from the API server.
func IsStatic(pod *v1.Pod) bool {
	source, ok := pod.Annotations[AnnotationConfigSource]
	return ok && source != SourceAPI
}

// Restored says whether the pod is one of the API server's that came from a checkpoint, and not from the server yet: that
// knows a version of each.
func Restored(pod *v1.Pod) bool {
	return pod.Annotations[AnnotationConfigSource] == SourceAPI && pod.ResourceVersion == ""
}

// IsMirror says whether the pod is the API server's object for a static pod.
func IsMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[AnnotationConfigMirror]
	return ok
}

// PodLogDirectory is the directory of the pod's logs in root, namespace_name_uid.
func PodLogDirectory(root string, pod *v1.Pod) string {
	return filepath.Join(root, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// ContainerLogPath is the log file of a container's attempt, below its pod's log directory.
func ContainerLogPath(container string, attempt uint32) string {
	return filepath.Join(container, strconv.FormatUint(uint64(attempt), 10)+".log")
}

// PodDirectory is the pod's own directory in the kubelet's root: volumes, the hosts file, termination messages.
func PodDirectory(root string, uid types.UID) string {
	return filepath.Join(root, "pods", string(uid))
}
