package history

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// ExitCodeAnnotation is the annotation with the expected exit code of a pod's containers, each of which must end once.
const ExitCodeAnnotation = "soak/exit-code"

// Reported is one container in the pod statuses of the API server.
type Reported struct {
	ID, PodUID, Name string
	// Restarts is the restart count that was reported with this container as the current one, -1 if it never was
	// current.
	Restarts int
	// Running is the last reported state. Ended says that a status reported the end, with ExitCode and Reason.
	Running, Ended bool
	ExitCode       int
	Reason         string
}

func (t Reported) String() string {
	switch {
	case t.Running:
		return "running as " + short(t.ID)
	case t.Ended:
		return fmt.Sprintf("%s ended with %d (%s)", short(t.ID), t.ExitCode, t.Reason)
	default:
		return "waiting"
	}
}

// short is the beginning of an id.
func short(id string) string { return id[:min(len(id), 12)] }

// Pod is one pod in the statuses of the API server.
type Pod struct {
	UID, Name string
	// Owner is the name of the Job that owns the pod, empty without one.
	Owner string
	Phase v1.PodPhase
	// Reason is the reason of the phase, such as Evicted.
	Reason string
	Ready  bool
	// ExitCode is the exit code that its containers must end with, -1 for any.
	ExitCode int
	// Created is when the pod was first seen, Deleting when its deletion was first seen, and Gone when it no longer
	// existed.
	Created, Deleting, Gone time.Time
	// Current has its containers by name, running or not.
	Current map[string]Reported
	// Vanished are containers that the kubelet reported as ended before the pod's deletion, because it could not find
	// them.
	Vanished []string
}

// Evicted says whether the kubelet has evicted the pod. Other reasons of a phase excuse no difference.
func (p Pod) Evicted() bool { return p.Reason == evicted }

// evicted is the kubelet's reason for the end of an evicted pod.
const evicted = "Evicted"

// API is all statuses of pods that one watch has seen. It is safe for concurrent use.
type API struct {
	mu       sync.Mutex
	pods     map[string]*Pod
	reported map[string]*Reported
	// odd has impossible changes of statuses: restart counts that went down, and ends that were taken back.
	odd []Difference
}

// See records a pod's state. With gone, it also records that the pod no longer exists.
func (a *API) See(pod *v1.Pod, gone bool, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pods == nil {
		a.pods, a.reported = make(map[string]*Pod), make(map[string]*Reported)
	}
	p := a.pods[string(pod.UID)]
	if p == nil {
		p = newPod(pod, now)
		a.pods[p.UID] = p
	}
	p.Phase, p.Reason, p.Ready = pod.Status.Phase, pod.Status.Reason, model.Ready(pod)
	if pod.DeletionTimestamp != nil && p.Deleting.IsZero() {
		p.Deleting = now
	}
	if gone {
		p.end(now)
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		a.seeContainer(p, status)
	}
}

// Existing records which pods no longer exist. uids are the UIDs of all existing pods.
func (a *API) Existing(uids []string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uid, p := range a.pods {
		if !slices.Contains(uids, uid) && p.Gone.IsZero() {
			p.end(now)
		}
	}
}

// end records that the pod no longer exists.
func (p *Pod) end(now time.Time) {
	p.Gone = now
	if p.Deleting.IsZero() {
		p.Deleting = now // deleted without a grace period
	}
}

func newPod(pod *v1.Pod, now time.Time) *Pod {
	p := &Pod{UID: string(pod.UID), Name: pod.Name, ExitCode: -1, Created: now, Current: make(map[string]Reported)}
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Job" {
		p.Owner = owner.Name
	}
	if code, err := strconv.Atoi(pod.Annotations[ExitCodeAnnotation]); err == nil {
		p.ExitCode = code
	}
	return p
}

// vanished is the kubelet's reason for the end of a container that it cannot find.
const vanished = "ContainerStatusUnknown"

func (a *API) seeContainer(p *Pod, status v1.ContainerStatus) {
	restarts := int(status.RestartCount)
	if before, known := p.Current[status.Name]; known && restarts < before.Restarts {
		a.odd = append(a.odd, Difference{Rule: RestartsSank, Pod: p.Name, Container: status.Name,
			API: "restart count " + strconv.Itoa(before.Restarts) + ", then " + strconv.Itoa(restarts)})
	}
	current := Reported{PodUID: p.UID, Name: status.Name, Restarts: restarts}
	switch {
	case status.State.Running != nil:
		current.ID, current.Running = containerID(status.ContainerID), true
		a.merge(current)
	case status.State.Terminated != nil:
		current = ended(current, status.State.Terminated)
		a.seeEnd(p, current)
	}
	p.Current[status.Name] = current
	if last := status.LastTerminationState.Terminated; last != nil {
		a.seeEnd(p, ended(Reported{PodUID: p.UID, Name: status.Name, Restarts: -1}, last))
	}
}

func ended(t Reported, state *v1.ContainerStateTerminated) Reported {
	t.ID, t.Ended, t.ExitCode, t.Reason = containerID(state.ContainerID), true, int(state.ExitCode), state.Reason
	return t
}

// seeEnd records an end. A container that the kubelet could not find has no exit code.
func (a *API) seeEnd(p *Pod, t Reported) {
	if t.Reason == vanished {
		if p.Deleting.IsZero() && !slices.Contains(p.Vanished, t.Name) {
			p.Vanished = append(p.Vanished, t.Name)
		}
		return
	}
	a.merge(t)
}

// merge adds a newer status of a container to the earlier ones.
func (a *API) merge(t Reported) {
	if t.ID == "" {
		return
	}
	if before := a.reported[t.ID]; before != nil {
		if before.Ended && (t.Running || t.ExitCode != before.ExitCode) {
			a.odd = append(a.odd,
				Difference{Rule: EndTakenBack, Pod: a.pods[t.PodUID].Name, Container: t.Name,
					API: before.String() + ", then " + t.String()})
		}
		if t.Restarts < 0 {
			t.Restarts = before.Restarts
		}
	}
	a.reported[t.ID] = &t
}

// containerID is an id without its scheme.
func containerID(id string) string {
	_, id, _ = strings.Cut(id, "://")
	return id
}

// Pods returns all pods, the oldest first.
func (a *API) Pods() []Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.copies()
}

// copies is Pods for a caller that holds the lock.
func (a *API) copies() []Pod {
	all := make([]Pod, 0, len(a.pods))
	for p := range maps.Values(a.pods) {
		copied := *p
		copied.Current = maps.Clone(p.Current)
		all = append(all, copied)
	}
	slices.SortFunc(all, func(a, b Pod) int { return a.Created.Compare(b.Created) })
	return all
}

// view copies everything at one moment.
func (a *API) view() (pods map[string]Pod, reported map[string]Reported, odd []Difference) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.copies()
	pods, reported = make(map[string]Pod, len(all)), make(map[string]Reported, len(a.reported))
	for _, p := range all {
		pods[p.UID] = p
	}
	for id, t := range a.reported {
		reported[id] = *t
	}
	return pods, reported, slices.Clone(a.odd)
}
