package client

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Summary is a pod in one line.
type Summary struct {
	Namespace, Name string
	// Ready and Total count containers that run as long as the pod.
	Ready, Total int
	// Status is a word: the phase, or why it is not as it should be.
	Status string
	// Restarts is how often containers were restarted, LastRestart when last; zero for never.
	Restarts    int32
	LastRestart time.Time
	// Created is when the kubelet first saw the pod.
	Created time.Time
	IP      string
}

// Summarize makes the summary of a pod, with the words that kubectl has for it.
func Summarize(pod *v1.Pod) Summary {
	s := Summary{Namespace: pod.Namespace, Name: pod.Name, Status: string(pod.Status.Phase), Created: created(pod), IP: pod.Status.PodIP}
	if pod.Status.Reason != "" {
		s.Status = pod.Status.Reason
	}
	waits := s.initContainers(pod)
	running := s.containers(pod, waits == "")
	switch {
	case waits != "":
		s.Status = waits
	case s.Status == "Completed" && running:
		s.Status = "NotReady"
		if ready(pod) {
			s.Status = "Running"
		}
	}
	if pod.DeletionTimestamp != nil {
		s.Status = "Terminating"
	}
	return s
}

// created is when the pod began to be; a static pod has no time of creation.
func created(pod *v1.Pod) time.Time {
	if !pod.CreationTimestamp.IsZero() {
		return pod.CreationTimestamp.Time
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	seen, err := time.Parse(time.RFC3339Nano, pod.Annotations[model.AnnotationConfigSeen])
	if err != nil {
		return time.Time{}
	}
	return seen
}

func ready(pod *v1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == v1.PodReady {
			return condition.Status == v1.ConditionTrue
		}
	}
	return false
}

// initContainers counts sidecars and says what the pod waits for, empty if it is past its init containers.
func (s *Summary) initContainers(pod *v1.Pod) string {
	waits := ""
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		status := containerStatus(pod, spec.Name)
		s.restarts(&status)
		sidecar := model.IsSidecar(spec)
		if sidecar {
			s.Total++
			if status.Ready {
				s.Ready++
			}
		}
		done := status.State.Terminated != nil && status.State.Terminated.ExitCode == 0 && !sidecar
		if done || sidecar && status.Started != nil && *status.Started || waits != "" {
			continue
		}
		waits = "Init:" + initWord(&status, i, len(pod.Spec.InitContainers))
	}
	if pod.Status.Phase == v1.PodSucceeded {
		return ""
	}
	return waits
}

func initWord(status *v1.ContainerStatus, index, total int) string {
	switch waiting, ended := status.State.Waiting, status.State.Terminated; {
	case ended != nil && ended.ExitCode != 0:
		return endWord(ended)
	case waiting != nil && waiting.Reason != "" && waiting.Reason != model.ReasonPodInitializing:
		return waiting.Reason
	default:
		return fmt.Sprintf("%d/%d", index, total)
	}
}

// containers counts the app containers; if the pod is past its init containers, the first that does not run gives the
// status. It says whether any runs.
func (s *Summary) containers(pod *v1.Pod, initialized bool) (running bool) {
	for i := len(pod.Spec.Containers) - 1; i >= 0; i-- {
		status := containerStatus(pod, pod.Spec.Containers[i].Name)
		s.Total++
		s.restarts(&status)
		if status.Ready {
			s.Ready++
		}
		running = running || status.State.Running != nil
		if word := containerWord(&status); initialized && word != "" {
			s.Status = word
		}
	}
	return running
}

func containerWord(status *v1.ContainerStatus) string {
	switch {
	case status.State.Waiting != nil:
		return status.State.Waiting.Reason
	case status.State.Terminated != nil:
		return endWord(status.State.Terminated)
	default:
		return ""
	}
}

func endWord(ended *v1.ContainerStateTerminated) string {
	switch {
	case ended.Reason != "":
		return ended.Reason
	case ended.Signal != 0:
		return fmt.Sprintf("Signal:%d", ended.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", ended.ExitCode)
	}
}

func (s *Summary) restarts(status *v1.ContainerStatus) {
	s.Restarts += status.RestartCount
	if last := status.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(s.LastRestart) {
		s.LastRestart = last.FinishedAt.Time
	}
}

// age is how long ago something was, as kubectl writes it.
func age(now, then time.Time) string {
	if then.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(then))
}
