package translate

import "github.com/criadapter/criadapter/internal/ocinote"

// Annotations by which containerd names a container's pod. A runtime that runs a pod in one sandbox reads them.
const (
	annotationContainerType = "io.kubernetes.cri.container-type"
	annotationSandboxID     = "io.kubernetes.cri.sandbox-id"
)

// podSandboxNote is the note of the container for which the runtime makes the pod's sandbox.
func podSandboxNote() *ocinote.Note {
	return &ocinote.Note{Annotations: map[string]string{annotationContainerType: "sandbox"}}
}

// podContainerNote is the note of each other container in the pod's sandbox.
func podContainerNote(sandboxID string) *ocinote.Note {
	return &ocinote.Note{Annotations: map[string]string{
		annotationContainerType: "container", annotationSandboxID: sandboxID,
	}}
}
