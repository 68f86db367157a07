package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// Metrics are the metrics of one kubelet core. All methods are safe for concurrent use and never wait.
type Metrics struct {
	registry *prometheus.Registry

	operations, operationErrors *prometheus.CounterVec
	operationTime               *prometheus.HistogramVec
	relistTime, relistInterval  prometheus.Histogram
	lastSeen                    prometheus.Gauge
	workerTime                  *prometheus.HistogramVec
	podStart                    prometheus.Histogram
	startedPods                 prometheus.Counter
	evictions                   *prometheus.CounterVec
	cgroupTime, storageTime     *prometheus.HistogramVec
	probes                      probes
}

// requests counts the requests of all API server clients of this process: client-go accepts one such metric for the
// whole process.
var requests = sync.OnceValue(func() *prometheus.CounterVec {
	count := counters("rest_client_requests_total", "Number of requests to the API server by status code.", "code",
		"method", "host")
	clientmetrics.Register(clientmetrics.RegisterOpts{RequestResult: restRequests{count}})
	return count
})

// New returns metrics with the name of the node, and the metrics of the Go runtime and of the process.
func New(node string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), probes: newProbes(),
		operations: counters("kubelet_runtime_operations_total", "Number of CRI calls by type.",
			"operation_type"),
		operationErrors: counters("kubelet_runtime_operations_errors_total", "Number of failed CRI calls by type.",
			"operation_type"),
		operationTime: histograms("kubelet_runtime_operations_duration_seconds", "Time of CRI calls by type.",
			prometheus.ExponentialBuckets(.005, 2.5, 14), "operation_type"),
		relistTime: histogram("kubelet_pleg_relist_duration_seconds", "Time of relists in the PLEG.",
			prometheus.DefBuckets),
		relistInterval: histogram("kubelet_pleg_relist_interval_seconds", "Time between relists in the PLEG.",
			prometheus.DefBuckets),
		lastSeen: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_pleg_last_seen_seconds",
			Help: "When the PLEG last listed pods, in seconds since 1970."}),
		workerTime: histograms("kubelet_pod_worker_duration_seconds",
			"Time of one step of a pod: create, sync or kill.", prometheus.DefBuckets, "operation_type"),
		podStart: histogram("kubelet_pod_start_duration_seconds",
			"Time from the kubelet's first sight of a pod until it runs.",
			[]float64{.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800,
				2700, 3600}),
		startedPods: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_started_pods_total",
			Help: "Number of pods whose setup began."}),
		cgroupTime: histograms("kubelet_cgroup_manager_duration_seconds",
			"Time of operations on cgroups: create, update or destroy.", prometheus.DefBuckets, "operation_type"),
		storageTime: histograms("storage_operation_duration_seconds",
			"Time of volume mounts and volume updates.",
			[]float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
			"volume_plugin", "operation_name", "status", "migrated"),
		evictions: counters("kubelet_evictions", "Number of evicted pods by signal.", "eviction_signal"),
	}
	name := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_node_name",
		Help: "Always 1. The label is the node.", ConstLabels: prometheus.Labels{"node": node}})
	name.Set(1)
	m.registry.MustRegister(m.operations, m.operationErrors, m.operationTime, m.relistTime, m.relistInterval,
		m.lastSeen, m.workerTime, m.podStart, m.startedPods, m.evictions, m.cgroupTime, m.storageTime, name, requests(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Gatherer returns the metrics for a scrape.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Evicted counts an evicted pod.
func (m *Metrics) Evicted(signal string) { m.evictions.WithLabelValues(signal).Inc() }

// Relisted records a relist of the PLEG that started at began and ends now. last is the start of the relist before it,
// zero for none.
func (m *Metrics) Relisted(began, last time.Time) {
	m.relistTime.Observe(time.Since(began).Seconds())
	m.lastSeen.Set(float64(began.UnixMilli()) / 1000)
	if !last.IsZero() {
		m.relistInterval.Observe(began.Sub(last).Seconds())
	}
}

// CgroupDone records an operation on a cgroup. The operation started at began and ends now.
func (m *Metrics) CgroupDone(operation string, began time.Time) {
	m.cgroupTime.WithLabelValues(operation).Observe(time.Since(began).Seconds())
}

// VolumeMounted records the mount or the update of a volume. The mount or update started at began and ends now.
func (m *Metrics) VolumeMounted(plugin string, began time.Time, err error) {
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	m.storageTime.WithLabelValues(plugin, "volume_mount", status, "false").Observe(time.Since(began).Seconds())
}

// operation counts a CRI call that begins now. The returned function records the call's time and error.
func (m *Metrics) operation(name string) func(*error) {
	began := time.Now()
	m.operations.WithLabelValues(name).Inc()
	return func(err *error) {
		m.operationTime.WithLabelValues(name).Observe(time.Since(began).Seconds())
		if *err != nil {
			m.operationErrors.WithLabelValues(name).Inc()
		}
	}
}

// restRequests counts requests of client-go.
type restRequests struct{ count *prometheus.CounterVec }

// Increment implements the result metric of k8s.io/client-go/tools/metrics.
func (r restRequests) Increment(_ context.Context, code, method, host string) {
	r.count.WithLabelValues(code, method, host).Inc()
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}
