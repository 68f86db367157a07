package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/log"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cmd/criadapter/settings"
	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/telemetry"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/state"
)

// telemetryTime bounds the last scrape and the sending of the last spans at the end.
const telemetryTime = 2 * time.Second

// observers count and trace the services' operations. Counting costs next to nothing and is always on. The
// configuration decides which endpoints exist.
type observers struct {
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing // nil for no traces
	listener net.Listener       // nil for no endpoint
}

// observe makes the observers. It opens the endpoint at once, so that an invalid address fails the start.
func observe(ctx context.Context, cfg config.Config) (_ *observers, err error) {
	o := &observers{}
	options := telemetry.MetricsOptions{Version: version}
	if cfg.TracingEndpoint != "" {
		otel.SetErrorHandler(&traceErrors{})
		o.tracing, err = telemetry.NewTracing(ctx, telemetry.TracingOptions{
			Endpoint:          cfg.TracingEndpoint,
			SamplesPerMillion: cfg.TracingSamplingRate,
			Version:           version,
		})
		if err != nil {
			return nil, err
		}
		options.Tracer = o.tracing.Tracer()
	}
	o.metrics = telemetry.NewMetrics(options)
	if o.listener, err = listenMetrics(cfg); err != nil {
		o.close(ctx)
		return nil, err
	}
	return o, nil
}

// grpcOptions are the options for traces.
func (o *observers) grpcOptions() []grpc.ServerOption {
	if o.tracing == nil {
		return nil
	}
	return []grpc.ServerOption{o.tracing.ServerOption()}
}

// serve answers scrapes until stop is called. stop waits for running scrapes, telemetryTime at most. serve logs errors
// and never ends the program.
func (o *observers) serve(ctx context.Context, cfg config.Config, services *services) (stop func()) {
	if o.listener == nil {
		return func() {}
	}
	o.metrics.Watch(telemetry.Sources{
		Cache:      func() telemetry.CacheStats { return cacheStats(services.cache) },
		Logs:       func() telemetry.LogStats { return logStats(services.logs) },
		Streams:    services.streams.Sessions,
		OCIRuntime: services.engine.OCIRuntimeWorks,
	})
	server := telemetry.NewServer(telemetry.ServerOptions{
		Listener: o.listener,
		Metrics:  o.metrics,
		Ready:    services.cache.Err,
		Flags:    func() map[string]string { return services.inForce.Load().Flags() },
		Profiles: cfg.MetricsProfiling,
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(); err != nil {
			log.G(ctx).WithError(err).Error("metrics and health are not served any more")
		}
	}()
	log.G(ctx).WithField("address", o.listener.Addr().String()).Info("serving metrics")
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryTime)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			log.G(ctx).WithError(err).Warn("last scrape was cut off")
		}
		<-served
	}
}

// close ends the tracing and an endpoint that serve has not closed. It sends the remaining spans, for telemetryTime at
// most.
func (o *observers) close(ctx context.Context) {
	if o.listener != nil {
		_ = o.listener.Close() // already closed if serve's stop has run
	}
	if o.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryTime)
	defer cancel()
	if err := o.tracing.Close(ctx); err != nil {
		log.G(ctx).WithError(err).Warn("traces are incomplete")
	}
}

// listenMetrics opens --metrics-bind-addr, nil for none.
func listenMetrics(cfg config.Config) (net.Listener, error) {
	if cfg.MetricsBindAddr == "" {
		return nil, nil
	}
	if path := cfg.MetricsSocket(); path != "" {
		return listenUnix("--metrics-bind-addr", path)
	}
	address, err := settings.MetricsAddress(cfg.MetricsBindAddr)
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind-addr: %w", err)
	}
	return listener, nil
}

func cacheStats(cache *state.Cache) telemetry.CacheStats {
	stats := telemetry.CacheStats{
		Fresh:      cache.Err() == nil,
		Relisted:   cache.Relisted(),
		Pods:       map[string]int{},
		Containers: map[string]int{},
	}
	// The states of the CRI API without their prefix. States with no entries are 0.
	podLabel := func(s runtimeapi.PodSandboxState) string {
		return strings.ToLower(strings.TrimPrefix(s.String(), "SANDBOX_"))
	}
	containerLabel := func(s runtimeapi.ContainerState) string {
		return strings.ToLower(strings.TrimPrefix(s.String(), "CONTAINER_"))
	}
	for s := range runtimeapi.PodSandboxState_name {
		stats.Pods[podLabel(runtimeapi.PodSandboxState(s))] = 0
	}
	for s := range runtimeapi.ContainerState_name {
		stats.Containers[containerLabel(runtimeapi.ContainerState(s))] = 0
	}
	snapshot := cache.Snapshot()
	for _, pod := range snapshot.Pods() {
		stats.Pods[podLabel(pod.Status.State())]++
	}
	for _, container := range snapshot.Containers() {
		stats.Containers[containerLabel(container.Status.State())]++
	}
	return stats
}

// report is the state of the program for `criadapter status`.
func report(ctx context.Context, started time.Time, services *services, metrics *telemetry.Metrics) status.Report {
	cache, happened := cacheStats(services.cache), metrics.Happened()
	r := status.Report{
		Version: version, PID: os.Getpid(), Started: started,
		Relisted: cache.Relisted, LastEvent: happened.LastEvent, EventLag: happened.EventLag,
		Pods: cache.Pods, Containers: cache.Containers, Sessions: services.streams.Sessions(),
		CNI: happened.CNI, Slow: happened.Slow, LogGaps: services.logs.Counters().Gaps,
		Commands: status.Commands(services.containers.CommandWay()),
	}
	if err := services.cache.Err(); err != nil {
		r.CacheError = err.Error()
	}
	listing, _ := services.store.List(ctx) // services.warnings reports the error
	for _, q := range listing.Quarantined {
		r.Quarantined = append(r.Quarantined, q.Path)
	}
	return r
}

func logStats(service *logs.Service) telemetry.LogStats {
	counters := service.Counters()
	return telemetry.LogStats{
		Gaps:           counters.Gaps,
		MissingBytes:   counters.MissingBytes,
		MissingEntries: counters.MissingEntries,
		DamagedBytes:   counters.DamagedBytes,
		Unwatched:      service.Unwatched(),
	}
}

// traceErrors logs an error of sending traces unless the previous error had the same text. Sending to a missing
// collector fails every few seconds.
type traceErrors struct {
	last atomic.Pointer[string]
}

// Handle implements otel.ErrorHandler.
func (t *traceErrors) Handle(err error) {
	if errors.Is(err, context.Canceled) {
		return // the program ends
	}
	text := err.Error()
	if last := t.last.Swap(&text); last == nil || *last != text {
		log.L.WithField("component", "telemetry").WithError(err).Warn("cannot send traces")
	}
}
