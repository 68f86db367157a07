package client

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/criadapter/criadapter/kubelet/model"
)

// summary is a pod's row of the table.
type summary struct {
	namespace, name string
	// ready and total count app containers and sidecars.
	ready, total int
	// status is kubectl's STATUS: the phase, or the reason of a container that does not run.
	status string
	restarted
	// created is the time from which the age counts.
	created time.Time
	ip      string
	// node and images are for wide tables. images has the images of the app containers, separated by commas.
	node, images string
}

// restarted counts restarts of containers.
type restarted struct {
	restarts int32
	// lastRestart is the time of the latest restart, zero without a restart.
	lastRestart time.Time
}

func (r *restarted) add(status *v1.ContainerStatus) {
	r.restarts += status.RestartCount
	if last := status.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(r.lastRestart) {
		r.lastRestart = last.FinishedAt.Time
	}
}

// summarize makes the summary of a pod, as kubectl does (printPod of pkg/printers/internalversion).
func summarize(pod *v1.Pod) summary {
	s := summary{namespace: pod.Namespace, name: pod.Name, total: len(pod.Spec.Containers),
		status: string(pod.Status.Phase), created: created(pod), ip: pod.Status.PodIP, node: pod.Spec.NodeName,
		images: images(pod)}
	if pod.Status.Reason != "" {
		s.status = pod.Status.Reason
	}
	if s.initContainers(pod) {
		s.containers(pod)
	}
	if pod.DeletionTimestamp != nil && !model.Terminal(pod.Status.Phase) {
		s.status = "Terminating"
	}
	return s
}

func images(pod *v1.Pod) string {
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Image)
	}
	return strings.Join(names, ",")
}

// created is the creation time of the pod. A static pod has none, so its start time counts, or else the time when the
// kubelet first observed it.
func created(pod *v1.Pod) time.Time {
	if !pod.CreationTimestamp.IsZero() {
		return pod.CreationTimestamp.Time
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	observed, err := time.Parse(time.RFC3339Nano, pod.Annotations[model.AnnotationConfigSeen])
	if err != nil {
		return time.Time{}
	}
	return observed
}

// initContainers sets the status to the state of the init container that the pod waits for. It returns true if the pod
// is past its init containers. For such a pod, it counts only the restarts of sidecars.
func (s *summary) initContainers(pod *v1.Pod) (initialized bool) {
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		if model.IsSidecar(&pod.Spec.InitContainers[i]) {
			sidecars[pod.Spec.InitContainers[i].Name] = true
			s.total++
		}
	}
	var ofSidecars restarted
	initialized = true
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		s.add(status)
		if sidecars[status.Name] {
			ofSidecars.add(status)
		}
		if ended := status.State.Terminated; ended != nil && ended.ExitCode == 0 {
			continue
		}
		if sidecars[status.Name] && status.Started != nil && *status.Started {
			if status.Ready {
				s.ready++
			}
			continue
		}
		s.status = "Init:" + initReason(status, i, len(pod.Spec.InitContainers))
		initialized = false
		break
	}
	if was := model.FindCondition(pod.Status.Conditions, v1.PodInitialized); was != nil &&
		was.Status == v1.ConditionTrue { // a sidecar starts again
		initialized = true
	}
	if initialized {
		s.restarted = ofSidecars
	}
	return initialized
}

func initReason(status *v1.ContainerStatus, index, total int) string {
	switch waiting, ended := status.State.Waiting, status.State.Terminated; {
	case ended != nil && ended.ExitCode != 0:
		return endReason(ended)
	case waiting != nil && waiting.Reason != "" && waiting.Reason != model.ReasonPodInitializing:
		return waiting.Reason
	default:
		return fmt.Sprintf("%d/%d", index, total)
	}
}

// containers counts the app containers. The first one that does not run sets the status. The status is Completed only
// if no container is ready or has failed.
func (s *summary) containers(pod *v1.Pod) {
	running, failure := false, ""
	for i := len(pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		status := &pod.Status.ContainerStatuses[i]
		s.add(status)
		if status.Ready && status.State.Running != nil {
			running = true
			s.ready++
		}
		if reason := containerReason(status); reason != "" {
			s.status = reason
		}
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			failure = endReason(ended)
		}
	}
	switch {
	case s.status != "Completed":
	case running && model.Ready(pod):
		s.status = "Running"
	case failure != "":
		s.status = failure
	case running:
		s.status = "NotReady"
	}
}

func containerReason(status *v1.ContainerStatus) string {
	switch {
	case status.State.Waiting != nil:
		return status.State.Waiting.Reason
	case status.State.Terminated != nil:
		return endReason(status.State.Terminated)
	default:
		return ""
	}
}

func endReason(ended *v1.ContainerStateTerminated) string {
	switch {
	case ended.Reason != "":
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprintf("Signal:%d", ended.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", ended.ExitCode)
	}
}

// age returns the time between then and now, in kubectl's notation.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then))
}
