package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Sources are asked at each scrape, by any number of goroutines, and must not wait. All are required.
type Sources struct {
	Cache   func() CacheStats
	Logs    func() LogStats
	Streams func() map[string]int // open streaming sessions by kind
	// OCIRuntime reports whether the engine has the runtime criadapter-oci, and whether it works.
	OCIRuntime func() (found, works bool)
}

// CacheStats describe the cache of pods and containers.
type CacheStats struct {
	// Fresh says that it follows the engine.
	Fresh bool
	// Relisted is when it was last compared with all that the engine has, zero for never.
	Relisted time.Time
	// Pods and Containers count what there is by state.
	Pods, Containers map[string]int
}

// LogStats are how containers' logs are written.
type LogStats struct {
	// Gaps and the next three are what was missing in the engine's own logs. They only grow.
	Gaps, MissingBytes, MissingEntries, DamagedBytes uint64
	// Unwatched is how many logs have no inotify watch now.
	Unwatched int
}

// Watch adds the sources to what is exposed. It must be called once at most.
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
		sources:     sources,
		fresh:       describe("cache_fresh", "Whether the cache follows Docker Engine: 1, or 0 while lists answer from memory alone."),
		age:         describe("cache_age_seconds", "Time since the cache was last compared with all that Docker Engine has; events keep it up to date in between."),
		pods:        describe("pods", "Pod sandboxes, by state.", "state"),
		containers:  describe("containers", "Containers of pods, by state.", "state"),
		streams:     describe("streaming_sessions", "Open exec, attach and port-forward sessions.", "kind"),
		gaps:        describe("log_gaps_total", "Times that Docker Engine had dropped output before it was read."),
		lostBytes:   describe("log_missing_bytes_total", "Estimate of what was dropped, in bytes of Docker Engine's logs."),
		lostEntries: describe("log_missing_entries_total", "Estimate of what was dropped, in lines of CRI logs."),
		damage:      describe("log_damaged_bytes_total", "Bytes of Docker Engine's logs that held no whole record."),
		unwatched:   describe("log_unwatched", "Container logs that are looked at periodically, because the kernel has no inotify watch left."),
		ociRuntime:  describe("oci_runtime_works", "Whether containers have shown that the runtime criadapter-oci works: 1, or 0 while nothing new can use it; absent on an engine without it."),
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe implements prometheus.Collector.
func (w *watched) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.fresh, w.age, w.pods, w.containers, w.streams, w.gaps, w.lostBytes, w.lostEntries, w.damage, w.unwatched, w.ociRuntime} {
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
	for d, counts := range map[*prometheus.Desc]map[string]int{w.pods: cache.Pods, w.containers: cache.Containers, w.streams: w.sources.Streams()} {
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

// truth is 1 for what is true.
func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
