package server

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// metrics writes the few figures that the kubelet core has itself. Container figures are in the summary, and the runtime
// has metrics of its own.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	pods := s.opts.Pods()
	family(w, "kubelet_running_pods", "gauge", "Number of pods with a running container.")
	fmt.Fprintf(w, "kubelet_running_pods %d\n", running(pods))
	family(w, "kubelet_pods", "gauge", "Number of pods by phase.")
	phases := map[v1.PodPhase]int{}
	for _, pod := range pods {
		phases[pod.Status.Phase]++
	}
	for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed} {
		fmt.Fprintf(w, "kubelet_pods{phase=%q} %d\n", string(phase), phases[phase])
	}
	family(w, "kubelet_container_restarts_total", "counter", "How often a container was started again.")
	for _, pod := range pods {
		for _, container := range statuses(pod) {
			fmt.Fprintf(w, "kubelet_container_restarts_total{namespace=%s,pod=%s,container=%s} %d\n",
				strconv.Quote(pod.Namespace), strconv.Quote(pod.Name), strconv.Quote(container.Name), container.RestartCount)
		}
	}
	family(w, "kubelet_runtime_healthy", "gauge", "1 when the runtime answers and is ready.")
	fmt.Fprintf(w, "kubelet_runtime_healthy %d\n", number(s.opts.Healthy() == nil))
	family(w, "kubelet_evented_pleg", "gauge", "1 while the runtime streams its events, 0 while its pods are listed.")
	fmt.Fprintf(w, "kubelet_evented_pleg %d\n", number(s.opts.Evented()))
	family(w, "process_start_time_seconds", "gauge", "When the endpoint was opened, in seconds since 1970.")
	fmt.Fprintf(w, "process_start_time_seconds %d\n", s.started.Unix())
}

func family(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func statuses(pod *v1.Pod) []v1.ContainerStatus {
	return append(append([]v1.ContainerStatus(nil), pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
}

func running(pods []*v1.Pod) int {
	n := 0
	for _, pod := range pods {
		for _, container := range statuses(pod) {
			if container.State.Running != nil {
				n++
				break
			}
		}
	}
	return n
}

func number(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
