package model

import (
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels of sandboxes and containers, as in every kubelet. crictl and runtimes read them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
	// LabelOwner has the name of the kubelet core that created the sandbox or container. The upstream kubelet kills all
	// unknown pods of its runtime. The kubelet core touches only pods with its own name, so it can share a runtime.
	LabelOwner = "io.criadapter.kubelet-core"
)

// Annotations of containers, as in every kubelet. A restarted kubelet reads them.
const (
	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPodDeletionGracePeriod   = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationPodTerminationGrace      = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationContainerPorts           = "io.kubernetes.container.ports"
	// AnnotationResources is the kubelet core's own: the container's requests and limits at its creation, in JSON.
	AnnotationResources = "io.criadapter.kubelet-core/resources"
)

// Annotations of pods, as in every kubelet, and one of the kubelet core.
const (
	AnnotationConfigSource = "kubernetes.io/config.source"
	AnnotationConfigHash   = "kubernetes.io/config.hash"
	AnnotationConfigSeen   = "kubernetes.io/config.seen"
	AnnotationConfigMirror = "kubernetes.io/config.mirror"
	// AnnotationManifest is the path of a static pod's file, or the URL that the pod came from.
	AnnotationManifest = "io.criadapter.kubelet-core/manifest"
)

// Sources of pods, the values of AnnotationConfigSource.
const (
	SourceFile = "file"
	SourceHTTP = "http"
	SourceAPI  = "api"
)

// FullName returns name_namespace. Pods with the same full name run one after the other, whatever their UIDs.
func FullName(pod *v1.Pod) string { return pod.Name + "_" + pod.Namespace }

// Key returns namespace/name, as in logs.
func Key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// Keys returns the keys of several pods.
func Keys(pods []*v1.Pod) []string {
	keys := make([]string, len(pods))
	for i, pod := range pods {
		keys[i] = Key(pod)
	}
	return keys
}

// IsStatic reports whether the pod comes from a file or a URL and not from the API server.
func IsStatic(pod *v1.Pod) bool {
	source, ok := pod.Annotations[AnnotationConfigSource]
	return ok && source != SourceAPI
}

// Restored reports whether the pod is an API server's pod from a checkpoint that the server has not confirmed yet. Only
// pods that the server sent have a resource version.
func Restored(pod *v1.Pod) bool {
	return pod.Annotations[AnnotationConfigSource] == SourceAPI && pod.ResourceVersion == ""
}

// IsMirror reports whether the pod is the API server's object for a static pod.
func IsMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[AnnotationConfigMirror]
	return ok
}

// PodLogDirectory returns the directory of the pod's logs in root, namespace_name_uid.
func PodLogDirectory(root string, pod *v1.Pod) string {
	return filepath.Join(root, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// ContainerLogPath returns the log file of a container's attempt, below its pod's log directory.
func ContainerLogPath(container string, attempt uint32) string {
	return filepath.Join(container, strconv.FormatUint(uint64(attempt), 10)+".log")
}

// PodDirectory returns the pod's own directory in the kubelet's root, with volumes, the hosts file and termination
// messages.
func PodDirectory(root string, uid types.UID) string {
	return filepath.Join(root, "pods", string(uid))
}
