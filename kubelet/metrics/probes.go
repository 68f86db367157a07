package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/prober"
)

// probes counts and times probes. As in the kubelet, the path /metrics/probes shows only probes, so probes have a
// registry of their own.
type probes struct {
	registry *prometheus.Registry
	results  *prometheus.CounterVec
	times    *prometheus.HistogramVec
}

func newProbes() probes {
	p := probes{
		registry: prometheus.NewRegistry(),
		results: counters("prober_probe_total", "Number of probes of a container by type and result.",
			"probe_type", "result", "container", "pod", "namespace", "pod_uid"),
		times: histograms("prober_probe_duration_seconds",
			"Time of probes of a container by type, without failed ones.", prometheus.DefBuckets,
			"probe_type", "container", "pod", "namespace"),
	}
	p.registry.MustRegister(p.results, p.times)
	return p
}

// Probes returns the metrics of probes for a scrape.
func (m *Metrics) Probes() prometheus.Gatherer { return m.probes.registry }

// Probed records the result of a probe, and how long the probe took. As in the kubelet, the time of a failed probe is
// not recorded.
func (m *Metrics) Probed(pod *v1.Pod, container string, probe prober.Type, result prober.Result, took time.Duration) {
	m.probes.results.WithLabelValues(string(probe), string(result), container, pod.Name, pod.Namespace,
		string(pod.UID)).Inc()
	if result != prober.Failed {
		m.probes.times.WithLabelValues(string(probe), container, pod.Name, pod.Namespace).Observe(took.Seconds())
	}
}

// forget drops the metrics of a pod. As in the kubelet, the times have no UID, so they are found by the pod's name.
// Another pod of that name has no times yet, because it starts only after the last step of this pod.
func (p probes) forget(pod *v1.Pod) {
	p.results.DeletePartialMatch(prometheus.Labels{"pod_uid": string(pod.UID)})
	p.times.DeletePartialMatch(prometheus.Labels{"pod": pod.Name, "namespace": pod.Namespace})
}
