package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources are called at each scrape, concurrently, and must not wait. All are required.
type Sources struct {
	Cache   func() CacheStats
	Logs    func() LogStats
	Streams func() map[string]int // open streaming sessions by kind
	// OCIRuntime reports whether the engine has the runtime criadapter-oci, and whether it works.
	OCIRuntime func() (found, works bool)
}

// CacheStats describe the cache of pods and containers.
type CacheStats struct {
	// Fresh says that the cache follows the engine.
	Fresh bool
	// Relisted is the time of the last full relist, zero for none.
	Relisted time.Time
	// Pods and Containers are counts by state.
	Pods, Containers map[string]int
}

// LogStats describe the writing of containers' logs.
type LogStats struct {
	// Gaps and the next three fields count losses in the engine's own logs. They only grow.
	Gaps, MissingBytes, MissingEntries, DamagedBytes uint64
	// Unwatched is the present number of logs without an inotify watch.
	Unwatched int
}

// Watch adds the sources to the metrics. Call it at most once.
func (m *Metrics) Watch(sources Sources) { m.registry.MustRegister(newWatched(sources)) }

// watched turns sources into metrics.
type watched struct {
	sources Sources

	fresh, age, pods, containers         *prometheus.Desc
	streams                              *prometheus.Desc
	gaps, lostBytes, lostEntries, damage *prometheus.Desc
	unwatched, ociRuntime                *prometheus.Desc
}

func newWatched(sources Sources) *watched {
	return &watched{
		sources: sources,
		fresh: describe("cache_fresh", "Whether the cache follows Docker Engine: 1, or 0 while lists answer from "+
			"memory alone."),
		age: describe("cache_age_seconds", "Time since the last full comparison of the cache with Docker "+
			"Engine. Events keep it up to date in between."),
		pods:       describe("pods", "Pod sandboxes, by state.", "state"),
		containers: describe("containers", "Containers of pods, by state.", "state"),
		streams:    describe("streaming_sessions", "Open exec, attach and port-forward sessions.", "kind"),
		gaps: describe("log_gaps_total", "Number of times that Docker Engine dropped output before "+
			"criadapter read it."),
		lostBytes: describe("log_missing_bytes_total", "Estimate of the dropped output, in bytes of Docker "+
			"Engine's logs."),
		lostEntries: describe("log_missing_entries_total", "Estimate of the dropped output, in lines of CRI logs."),
		damage:      describe("log_damaged_bytes_total", "Bytes of Docker Engine's logs that are not whole records."),
		unwatched: describe("log_unwatched", "Container logs that are polled, because the kernel has no inotify "+
			"watch left."),
		ociRuntime: describe("oci_runtime_works", "1 if a test container has shown that the runtime criadapter-oci "+
			"works, 0 while new containers cannot use it. "+
			"Absent on an engine without it."),
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (w *watched) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.fresh, w.age, w.pods, w.containers, w.streams, w.gaps, w.lostBytes,
		w.lostEntries, w.damage, w.unwatched, w.ociRuntime} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (w *watched) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	counter := func(d *prometheus.Desc, value uint64) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value))
	}
	cache := w.sources.Cache()
	gauge(w.fresh, truth(cache.Fresh))
	if !cache.Relisted.IsZero() {
		gauge(w.age, time.Since(cache.Relisted).Seconds())
	}
	for d, counts := range map[*prometheus.Desc]map[string]int{w.pods: cache.Pods, w.containers: cache.Containers,
		w.streams: w.sources.Streams()} {
		for label, count := range counts {
			gauge(d, float64(count), label)
		}
	}
	logs := w.sources.Logs()
	counter(w.gaps, logs.Gaps)
	counter(w.lostBytes, logs.MissingBytes)
	counter(w.lostEntries, logs.MissingEntries)
	counter(w.damage, logs.DamagedBytes)
	gauge(w.unwatched, float64(logs.Unwatched))
	if found, works := w.sources.OCIRuntime(); found {
		gauge(w.ociRuntime, truth(works))
	}
}

// truth is 1 for true, else 0.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
