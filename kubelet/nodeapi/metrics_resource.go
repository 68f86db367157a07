package nodeapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/log"
	dto "github.com/prometheus/client_model/go"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// resourceMetric is one metric of /metrics/resource.
type resourceMetric struct {
	name  string
	kind  dto.MetricType
	help  string
	value func(usage) (value float64, at time.Time, ok bool)
}

// usage is the resource use of a node, a pod or a container. Parts may be missing.
type usage struct {
	cpu     *statsapi.CPUStats
	memory  *statsapi.MemoryStats
	swap    *statsapi.SwapStats
	started time.Time
}

// resourceMetrics are the metrics with the suffixes of their names. The prefix node_, pod_ or container_ comes before
// the suffix. The names are the kubelet's, because metrics-server reads them.
var resourceMetrics = []resourceMetric{
	{"cpu_usage_seconds_total", counter, "Cumulative cpu time consumed, in core-seconds.",
		func(u usage) (float64, time.Time, bool) {
			if u.cpu == nil || u.cpu.UsageCoreNanoSeconds == nil {
				return 0, time.Time{}, false
			}
			return float64(*u.cpu.UsageCoreNanoSeconds) / float64(time.Second), u.cpu.Time.Time, true
		}},
	{"memory_working_set_bytes", gauge, "Current working set, in bytes.", func(u usage) (float64, time.Time, bool) {
		if u.memory == nil || u.memory.WorkingSetBytes == nil {
			return 0, time.Time{}, false
		}
		return float64(*u.memory.WorkingSetBytes), u.memory.Time.Time, true
	}},
	{"swap_usage_bytes", gauge, "Current swap usage, in bytes.", func(u usage) (float64, time.Time, bool) {
		if u.swap == nil || u.swap.SwapUsageBytes == nil {
			return 0, time.Time{}, false
		}
		return float64(*u.swap.SwapUsageBytes), u.swap.Time.Time, true
	}},
	{"start_time_seconds", gauge, "Start time since unix epoch, in seconds.", func(u usage) (float64, time.Time, bool) {
		return float64(u.started.UnixNano()) / float64(time.Second), time.Time{}, !u.started.IsZero()
	}},
}

// resource writes the metrics for kubectl top. If the summary fails, resource writes only scrape_error 1 and
// resource_scrape_error 1, as the kubelet does.
func (s *reads) resource(w http.ResponseWriter, r *http.Request) {
	var out exposition
	summary, err := s.summarize(r.Context(), true)
	if err != nil {
		log.G(r.Context()).WithError(err).Warn("cannot get stats for /metrics/resource")
	} else {
		writeResources(&out, summary)
	}
	for _, name := range []string{"scrape_error", "resource_scrape_error"} {
		out.single(name, gauge, "1 if there was an error while getting container metrics, 0 otherwise.",
			number(err != nil))
	}
	out.write(w)
}

func writeResources(out *exposition, summary *statsapi.Summary) {
	writeResource(out, "node", func(each func(usage, ...label)) {
		each(usage{cpu: summary.Node.CPU, memory: summary.Node.Memory, swap: summary.Node.Swap})
	})
	writeResource(out, "pod", func(each func(usage, ...label)) {
		for _, pod := range summary.Pods {
			each(usage{cpu: pod.CPU, memory: pod.Memory}, label{"namespace", pod.PodRef.Namespace},
				label{"pod", pod.PodRef.Name})
		}
	})
	writeResource(out, "container", func(each func(usage, ...label)) {
		for _, pod := range summary.Pods {
			for _, c := range pod.Containers {
				each(usage{cpu: c.CPU, memory: c.Memory, swap: c.Swap, started: c.StartTime.Time},
					label{"container", c.Name}, label{"namespace", pod.PodRef.Namespace}, label{"pod", pod.PodRef.Name})
			}
		}
	})
}

// writeResource writes the families of nodes, pods or containers. While a pod is being replaced by another pod of its
// name, only the first one in the list counts. Prometheus would refuse the whole scrape if two samples had the same
// labels.
func writeResource(out *exposition, kind string, visit func(each func(usage, ...label))) {
	for _, metric := range resourceMetrics {
		samples := out.family(kind+"_"+metric.name, metric.kind, metric.help)
		written := map[string]bool{}
		visit(func(u usage, labels ...label) {
			value, at, ok := metric.value(u)
			name := fmt.Sprint(labels)
			if !ok || written[name] {
				return
			}
			written[name] = true
			samples.sample(value, at, labels...)
		})
	}
}
