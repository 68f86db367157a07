package nodeapi

import (
	"maps"
	"net/http"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// metrics writes the kubelet core's own metrics.
func (s *reads) metrics(w http.ResponseWriter, r *http.Request) {
	var out exposition
	var err error
	if out.measured, err = s.Measured.Gather(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	pods := s.Pods()
	out.single("kubelet_running_pods", gauge, "Number of pods with a running container.", float64(running(pods)))
	byPhase := out.family("kubelet_pods", gauge, "Number of pods by phase.")
	phases := map[v1.PodPhase]int{}
	for _, pod := range pods {
		phases[pod.Status.Phase]++
	}
	for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed} {
		byPhase.sample(float64(phases[phase]), time.Time{}, label{"phase", string(phase)})
	}
	restarts := out.family("kubelet_container_restarts_total", counter, "How often a container was started again.")
	for _, pod := range pods {
		for _, container := range model.Statuses(pod) {
			restarts.sample(float64(container.RestartCount), time.Time{},
				label{"namespace", pod.Namespace}, label{"pod", pod.Name}, label{"pod_uid", string(pod.UID)},
				label{"container", container.Name})
		}
	}
	containersByState(&out, pods)
	s.volumes(r.Context(), &out, pods)
	out.single("kubelet_runtime_healthy", gauge, "1 when the runtime answers and is ready.",
		number(s.RuntimeErr() == nil))
	out.single("kubelet_evented_pleg", gauge, "1 while the runtime streams its events, 0 while its pods are listed.",
		number(s.Evented()))
	s.sentEvents(&out)
	out.write(w)
}

// containersByState writes the numbers of containers.
func containersByState(out *exposition, pods []*v1.Pod) {
	counts := map[string]int{"created": 0, "running": 0, "exited": 0}
	for _, pod := range pods {
		for _, container := range model.Statuses(pod) {
			switch {
			case container.State.Running != nil:
				counts["running"]++
			case container.State.Terminated != nil:
				counts["exited"]++
			case container.ContainerID != "":
				counts["created"]++
			}
		}
	}
	containers := out.family("kubelet_running_containers", gauge, "Number of containers by state.")
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		containers.sample(float64(counts[state]), time.Time{}, label{"container_state", state})
	}
}

// sentEvents writes the numbers of events by outcome, if events are sent to an API server.
func (s *reads) sentEvents(out *exposition) {
	if s.SentEvents == nil {
		return
	}
	events := out.family("kubelet_events_total", counter,
		"Number of events for the API server by outcome: sent, suppressed, dropped or refused.")
	outcomes := s.SentEvents()
	for _, outcome := range slices.Sorted(maps.Keys(outcomes)) {
		events.sample(float64(outcomes[outcome]), time.Time{}, label{"outcome", outcome})
	}
}

// probes writes the results of probes, under the kubelet's names.
func (s *reads) probes(w http.ResponseWriter, _ *http.Request) {
	var out exposition
	var err error
	if out.measured, err = s.Probes.Gather(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	out.single("process_start_time_seconds", gauge, "When the endpoint was opened, in seconds since 1970.",
		float64(s.started.Unix()))
	out.write(w)
}

func running(pods []*v1.Pod) int {
	n := 0
	for _, pod := range pods {
		for _, container := range model.Statuses(pod) {
			if container.State.Running != nil {
				n++
				break
			}
		}
	}
	return n
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
