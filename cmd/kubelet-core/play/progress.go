package play

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/sdnotify"
	"github.com/criadapter/criadapter/kubelet/model"
)

// progress prints the changes of pods and their events, each once.
type progress struct {
	terminal *terminal
	// shown has the last printed state of each pod. counts has the last printed count of each event, by the event's
	// name.
	shown  map[types.UID]string
	counts map[string]int32
	// since is when a pod was first seen, or stopped being ready. last is its last printed state or event, by the pod's
	// name.
	since map[types.UID]time.Time
	last  map[string]string
	// announced says that announce has reported to the service manager that all pods are up.
	announced bool
}

func newProgress(t *terminal) *progress {
	return &progress{terminal: t, shown: map[types.UID]string{}, counts: map[string]int32{},
		since: map[types.UID]time.Time{}, last: map[string]string{}}
}

// say prints a line. Until all pods are up, the service manager gets it as well.
func (p *progress) say(ctx context.Context, name, text string) {
	p.terminal.line(name, text)
	p.last[name] = text
	if !p.announced {
		sdnotify.Status(ctx, name+" | "+text)
	}
}

// announce reports to the service manager, once, that all pods are up.
func (p *progress) announce(ctx context.Context, pods []*v1.Pod) {
	if !p.announced && !slices.ContainsFunc(pods, func(pod *v1.Pod) bool {
		return !ready(pod) && !model.Terminal(pod.Status.Phase)
	}) {
		p.announced = true
		sdnotify.Ready(ctx, fmt.Sprintf("%d pods", len(pods)))
	}
}

// tell prints new states and events.
func (p *progress) tell(ctx context.Context, pods []*v1.Pod, events []v1.Event) {
	for i := range events {
		if e := &events[i]; p.counts[e.Name] != e.Count && worthTelling(e) {
			p.counts[e.Name] = e.Count
			p.say(ctx, playName(e.InvolvedObject.Name, e.Source.Host), e.Message)
		}
	}
	for _, pod := range pods {
		if state := stateOf(pod); p.shown[pod.UID] != state {
			p.shown[pod.UID] = state
			p.say(ctx, podName(pod), state)
		}
	}
}

// waiting returns a line for each pod that is not ready: its name, for how many seconds it has not been ready, and its
// last news.
func (p *progress) waiting(pods []*v1.Pod, now time.Time) (lines []string) {
	for _, pod := range pods {
		if ready(pod) || model.Terminal(pod.Status.Phase) {
			delete(p.since, pod.UID)
			continue
		}
		begun, ok := p.since[pod.UID]
		if !ok {
			begun = now
			p.since[pod.UID] = now
		}
		name := podName(pod)
		lines = append(lines, fmt.Sprintf("… %s  %ds  %s", name, int(now.Sub(begun).Seconds()), p.last[name]))
	}
	return lines
}

// worthTelling selects events that tell a user more than the states: warnings and pulls. It leaves out errors that have
// only the reason of a waiting container, such as "Error: ErrImagePull". It also leaves out the warning about a missing
// cluster DNS, because a play has no cluster.
func worthTelling(e *v1.Event) bool {
	if reason, found := strings.CutPrefix(e.Message, "Error: "); found && !strings.Contains(reason, " ") {
		return false
	}
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

// stateOf describes a pod's state for users, in a few words.
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
		if waits := c.State.Waiting; waits != nil && waits.Reason != model.ReasonContainerCreating &&
			waits.Reason != model.ReasonPodInitializing {
			return fmt.Sprintf("%s: %s", c.Name, waits.Reason)
		}
	}
	return string(pod.Status.Phase)
}

// failure returns why a pod failed: its reason, or its first failed container.
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
