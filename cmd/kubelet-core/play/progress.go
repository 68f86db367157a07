package play

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// progress tells what becomes of pods, each news once.
type progress struct {
	terminal *terminal
	// shown is what was told last of a pod, told how often an event was.
	shown map[types.UID]string
	told  map[string]int32
}

func newProgress(t *terminal) *progress {
	return &progress{terminal: t, shown: map[types.UID]string{}, told: map[string]int32{}}
}

// tell tells what is new.
func (p *progress) tell(pods []*v1.Pod, events []v1.Event) {
	for i := range events {
		if e := &events[i]; p.told[e.Name] != e.Count && worthTelling(e) {
			p.told[e.Name] = e.Count
			p.terminal.line(playName(e.InvolvedObject.Name, e.Source.Host), e.Message)
		}
	}
	for _, pod := range pods {
		if state := stateOf(pod); p.shown[pod.UID] != state {
			p.shown[pod.UID] = state
			p.terminal.line(podName(pod), state)
		}
	}
}

// worthTelling says whether an event says more than the states do: what is wrong, and what takes long. That no cluster has a
// name server is known to who plays a file.
func worthTelling(e *v1.Event) bool {
	return e.Type == v1.EventTypeWarning && e.Reason != "MissingClusterDNS" || e.Reason == "Pulling"
}

// podName is a pod's name in its file.
func podName(pod *v1.Pod) string { return playName(pod.Name, pod.Spec.NodeName) }

func playName(name, node string) string {
	if short, ok := strings.CutSuffix(name, "-"+strings.ToLower(node)); ok {
		return short
	}
	return name
}

// stateOf is what a person wants to know of a pod, in a few words.
func stateOf(pod *v1.Pod) string {
	switch {
	case pod.Status.Phase == v1.PodFailed:
		return strings.TrimSpace("Failed " + failure(pod))
	case pod.Status.Phase == v1.PodSucceeded:
		return "Succeeded"
	case ready(pod):
		return "Ready, address " + pod.Status.PodIP
	}
	for _, c := range model.Statuses(pod) {
		if waits := c.State.Waiting; waits != nil && waits.Reason != model.ReasonContainerCreating && waits.Reason != model.ReasonPodInitializing {
			return fmt.Sprintf("%s: %s", c.Name, waits.Reason)
		}
	}
	return string(pod.Status.Phase)
}

// failure says why a pod failed: its own reason, or its first container that did.
func failure(pod *v1.Pod) string {
	if pod.Status.Reason != "" {
		return pod.Status.Reason + " " + pod.Status.Message
	}
	for _, c := range model.Statuses(pod) {
		if end := c.State.Terminated; end != nil && end.ExitCode != 0 {
			return fmt.Sprintf("%s: exit code %d", c.Name, end.ExitCode)
		}
	}
	return ""
}
