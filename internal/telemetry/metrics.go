package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc/codes"
)

// namespace is the prefix of our own metrics.
const namespace = "criadapter"

// Buckets of histograms in seconds. They are constant.
var (
	// callBuckets range from an answer from memory to the longest time that a kubelet waits.
	callBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60,
		120}
	pullBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	lagBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 30, 300}
)

// MetricsOptions are the options of Metrics. The zero value is a program without version and traces.
type MetricsOptions struct {
	// Version is the program's version.
	Version string
	// Tracer makes the spans of engine calls, CNI operations and pulls. It may be nil.
	Tracer trace.Tracer
}

// Metrics counts the program's operations. All methods are safe for concurrent use and never wait.
type Metrics struct {
	registry *prometheus.Registry
	recent   recent
	version  string

	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	engine      *operations
	cni         *operations
	pulls       *operations
	eventLag    prometheus.Histogram
	logBytes    prometheus.Counter
	logLag      prometheus.Histogram
}

// NewMetrics returns Metrics with its own registry, which has the metrics of the Go runtime and of the process, too.
func NewMetrics(opts MetricsOptions) *Metrics {
	if opts.Tracer == nil {
		opts.Tracer = noop.NewTracerProvider().Tracer("")
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		version:  opts.Version,
		requests: prometheus.NewCounterVec(counter("rpc_requests_total",
			"Finished CRI requests, by method and gRPC code."), []string{"method", "code"}),
		requestTime: prometheus.NewHistogramVec(histogram("rpc_duration_seconds",
			"Time from a CRI request's arrival to the end of its answer.", callBuckets), []string{"method"}),
		engine: &operations{
			tracer: opts.Tracer, span: "docker ", kind: trace.SpanKindClient,
			count: prometheus.NewCounterVec(counter("engine_calls_total",
				"Finished requests to Docker Engine, by kind and outcome."), []string{"call", "outcome"}),
			time: prometheus.NewHistogramVec(histogram("engine_call_duration_seconds",
				"Time of requests to Docker Engine.", callBuckets), []string{"call"}),
		},
		cni: &operations{
			tracer: opts.Tracer, span: "CNI ", kind: trace.SpanKindInternal,
			count: prometheus.NewCounterVec(counter("cni_operations_total",
				"Finished CNI operations, by outcome."), []string{"operation", "outcome"}),
			time: prometheus.NewHistogramVec(histogram("cni_operation_duration_seconds",
				"Time of CNI operations, all plugins of the chain together.", callBuckets), []string{"operation"}),
		},
		pulls: &operations{
			tracer: opts.Tracer, kind: trace.SpanKindInternal, sole: true,
			count: prometheus.NewCounterVec(counter("image_pulls_total",
				"Finished transfers of images from registries, by outcome."), []string{"outcome"}),
			time: prometheus.NewHistogramVec(histogram("image_pull_duration_seconds",
				"Time of transfers of images from registries.", pullBuckets), nil),
		},
		eventLag: prometheus.NewHistogram(histogram("event_lag_seconds",
			"Time from an event in Docker Engine to its arrival in criadapter.", lagBuckets)),
		logBytes: prometheus.NewCounter(counter("log_written_bytes_total",
			"Bytes written to containers' CRI logs.")),
		logLag: prometheus.NewHistogram(histogram("log_lag_seconds",
			"Age of the last entry of each batch written to a CRI log.", lagBuckets)),
	}
	m.registry.MustRegister(m.requests, m.requestTime, m.eventLag, m.logBytes, m.logLag, buildInfo(opts.Version),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, o := range []*operations{m.engine, m.cni, m.pulls} {
		m.registry.MustRegister(o.count, o.time)
	}
	return m
}

// RPC counts a finished CRI request.
func (m *Metrics) RPC(method string, code codes.Code, took time.Duration) {
	m.requests.WithLabelValues(method, code.String()).Inc()
	m.requestTime.WithLabelValues(method).Observe(took.Seconds())
	m.recent.request(method, code, took)
}

// EngineCall begins a request to the engine. The request uses the returned context, which has the request's span. The
// caller passes the request's error to the returned function.
func (m *Metrics) EngineCall(ctx context.Context, call string) (context.Context, func(error)) {
	started := time.Now()
	ctx, end := m.engine.begin(ctx, call)
	return ctx, func(err error) {
		end(err)
		m.recent.note("engine", call, time.Since(started), slowEngine)
	}
}

// CNIOperation is EngineCall for a CNI operation.
func (m *Metrics) CNIOperation(ctx context.Context, operation string) (context.Context, func(error)) {
	started := time.Now()
	ctx, end := m.cni.begin(ctx, operation)
	return ctx, func(err error) {
		end(err)
		m.recent.note("CNI", operation, time.Since(started), slowOperation)
		m.recent.noteFault(operation, err)
	}
}

// Pull is EngineCall for the transfer of an image from a registry.
func (m *Metrics) Pull(ctx context.Context) (context.Context, func(error)) {
	return m.pulls.begin(ctx, "pull image")
}

// Event counts an event of the engine. A clock that was set back gives no negative lag.
func (m *Metrics) Event(lag time.Duration) {
	m.eventLag.Observe(max(lag, 0).Seconds())
	m.recent.event(lag)
}

// LogBatch counts a batch of bytes written to a CRI log.
func (m *Metrics) LogBatch(bytes int, lag time.Duration) {
	m.logBytes.Add(float64(bytes))
	m.logLag.Observe(max(lag, 0).Seconds())
}

func counter(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}
}

func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
}

func buildInfo(version string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace:   namespace,
		Name:        "build_info",
		Help:        "Always 1. The label is the version of criadapter.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	info.Set(1)
	return info
}
