package client

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/criadapter/criadapter/kubelet/model"
)

// summary is a pod in one line.
type summary struct {
	namespace, name string
	// ready and total count app containers and sidecars.
	ready, total int
	// status is kubectl's STATUS: the phase, or the reason of a container that does not run.
	status string
	// restarts is the number of restarts of containers. lastRestart is the time of the last one, zero without one.
	restarts    int32
	lastRestart time.Time
	// created is the time from which the age counts.
	created time.Time
	ip      string
	// node and images are for wide tables. Images of all containers are separated by commas.
	node, images string
}

// summarize makes the summary of a pod, with kubectl's reasons.
func summarize(pod *v1.Pod) summary {
	s := summary{namespace: pod.Namespace, name: pod.Name, status: string(pod.Status.Phase), created: created(pod),
		ip: pod.Status.PodIP, node: pod.Spec.NodeName, images: images(pod)}
	if pod.Status.Reason != "" {
		s.status = pod.Status.Reason
	}
	waits := s.initContainers(pod)
	running := s.containers(pod, waits == "")
	switch {
	case waits != "":
		s.status = waits
	case s.status == "Completed" && running:
		s.status = "NotReady"
		if model.Ready(pod) {
			s.status = "Running"
		}
	}
	if pod.DeletionTimestamp != nil {
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

// initContainers counts sidecars and returns the status of the init container that the pod waits for. It returns ""
// after the last one.
func (s *summary) initContainers(pod *v1.Pod) string {
	waits := ""
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		status := containerStatus(pod, spec.Name)
		s.addRestarts(&status)
		sidecar := model.IsSidecar(spec)
		if sidecar {
			s.total++
			if status.Ready {
				s.ready++
			}
		}
		done := status.State.Terminated != nil && status.State.Terminated.ExitCode == 0 && !sidecar
		if done || sidecar && status.Started != nil && *status.Started || waits != "" {
			continue
		}
		waits = "Init:" + initReason(&status, i, len(pod.Spec.InitContainers))
	}
	if pod.Status.Phase == v1.PodSucceeded {
		return ""
	}
	return waits
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

// containers counts the app containers, and returns whether any runs. If the pod is past its init containers, the first
// container that does not run sets the status.
func (s *summary) containers(pod *v1.Pod, initialized bool) (running bool) {
	for i := len(pod.Spec.Containers) - 1; i >= 0; i-- {
		status := containerStatus(pod, pod.Spec.Containers[i].Name)
		s.total++
		s.addRestarts(&status)
		if status.Ready {
			s.ready++
		}
		running = running || status.State.Running != nil
		if reason := containerReason(&status); initialized && reason != "" {
			s.status = reason
		}
	}
	return running
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

func (s *summary) addRestarts(status *v1.ContainerStatus) {
	s.restarts += status.RestartCount
	if last := status.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(s.lastRestart) {
		s.lastRestart = last.FinishedAt.Time
	}
}

// age is the time since then, as kubectl writes it.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then))
}
