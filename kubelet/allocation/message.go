package allocation

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Message returns the message of an event about a resize (pkg/kubelet/events/resize.go): what happened, and the pod's
// resources as JSON. why is empty for an event without an error.
func Message(what string, pod *v1.Pod, why string) string {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	summary := struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}{Generation: pod.Generation, Error: why}
	model.EachContainer(&pod.Spec, func(c *v1.Container, kind model.Kind) {
		switch shown := (container{c.Name, c.Resources}); kind {
		case model.Init, model.Sidecar:
			summary.InitContainers = append(summary.InitContainers, shown)
		case model.App:
			summary.Containers = append(summary.Containers, shown)
		}
	})
	text, err := json.Marshal(summary)
	if err != nil {
		return what
	}
	return what + ": " + string(text)
}
