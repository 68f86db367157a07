package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"go.opentelemetry.io/otel"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/config"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/state"
	"github.com/criadapter/criadapter/telemetry"
)

// telemetryTime is what the last scrape and the last spans get at the end.
const telemetryTime = 2 * time.Second

// observers count and trace what the rooms do. Counting costs next to nothing
// and is always on; what is shown, and to whom, is the configuration's choice.
type observers struct {
	metrics  *telemetry.Metrics
	tracing  *telemetry.Tracing // nil for no traces
	listener net.Listener       // nil for no endpoint
}

// observe makes the observers. The endpoint is opened at once, so that a bad
// address is found before anything else begins.
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
		o.close()
		return nil, err
	}
	return o, nil
}

// grpcOptions are those that traces need.
func (o *observers) grpcOptions() []grpc.ServerOption {
	if o.tracing == nil {
		return nil
	}
	return []grpc.ServerOption{o.tracing.ServerOption()}
}

// serve answers scrapes until stop is called, which waits for the end. Trouble
// with it is logged and ends nothing else.
func (o *observers) serve(cfg config.Config, rooms *rooms) (stop func()) {
	if o.listener == nil {
		return func() {}
	}
	o.metrics.Watch(telemetry.Sources{
		Mirror:  func() telemetry.MirrorFigures { return mirrorFigures(rooms.mirror) },
		Logs:    func() telemetry.LogFigures { return logFigures(rooms.logs) },
		Streams: rooms.streams.Sessions,
	})
	server := telemetry.NewServer(telemetry.ServerOptions{
		Listener: o.listener,
		Metrics:  o.metrics,
		Ready:    rooms.mirror.Err,
		Profiles: cfg.MetricsProfiling,
	})
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(); err != nil {
			logrus.WithError(err).Error("metrics and health are not served any more")
		}
	}()
	logrus.WithField("address", o.listener.Addr().String()).Info("serving metrics")
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), telemetryTime)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			logrus.WithError(err).Warn("the last scrape was cut off")
		}
		<-served
	}
}

// close ends what serve has not ended: spans that are left get a moment.
func (o *observers) close() {
	if o.listener != nil {
		_ = o.listener.Close() // closed by serve's stop, unless it was not reached
	}
	if o.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), telemetryTime)
	defer cancel()
	if err := o.tracing.Close(ctx); err != nil {
		logrus.WithError(err).Warn("traces are incomplete")
	}
}

// listenMetrics opens --metrics-bind-addr, nil for none. There is no
// authentication, so nobody but this machine may reach it.
func listenMetrics(cfg config.Config) (net.Listener, error) {
	if cfg.MetricsBindAddr == "" {
		return nil, nil
	}
	if path := cfg.MetricsSocket(); path != "" {
		return listenUnix("--metrics-bind-addr", path)
	}
	address, err := net.ResolveTCPAddr("tcp", cfg.MetricsBindAddr)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind-addr: %w", err)
	}
	if !address.IP.IsLoopback() {
		return nil, fmt.Errorf("--metrics-bind-addr: %s is not a loopback address, and anyone could read it: "+
			"bind to 127.0.0.1 or a unix socket, and put a proxy with authentication in front", cfg.MetricsBindAddr)
	}
	listener, err := net.ListenTCP("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics-bind-addr: %w", err)
	}
	return listener, nil
}

func mirrorFigures(mirror *state.Mirror) telemetry.MirrorFigures {
	figures := telemetry.MirrorFigures{
		Fresh:      mirror.Err() == nil,
		Relisted:   mirror.Relisted(),
		Pods:       map[string]int{},
		Containers: map[string]int{},
	}
	// The states of the CRI API in short, those without any as well.
	podLabel := func(s runtimeapi.PodSandboxState) string {
		return strings.ToLower(strings.TrimPrefix(s.String(), "SANDBOX_"))
	}
	containerLabel := func(s runtimeapi.ContainerState) string {
		return strings.ToLower(strings.TrimPrefix(s.String(), "CONTAINER_"))
	}
	for s := range runtimeapi.PodSandboxState_name {
		figures.Pods[podLabel(runtimeapi.PodSandboxState(s))] = 0
	}
	for s := range runtimeapi.ContainerState_name {
		figures.Containers[containerLabel(runtimeapi.ContainerState(s))] = 0
	}
	snapshot := mirror.Snapshot()
	for _, pod := range snapshot.Pods() {
		figures.Pods[podLabel(pod.Status.State())]++
	}
	for _, container := range snapshot.Containers() {
		figures.Containers[containerLabel(container.Status.State())]++
	}
	return figures
}

func logFigures(service *logs.Service) telemetry.LogFigures {
	return telemetry.LogFigures(service.Counters())
}

// traceErrors logs what is wrong with sending traces, one line per new reason:
// a collector that is away fails every few seconds.
type traceErrors struct {
	last atomic.Pointer[string]
}

// Handle implements otel.ErrorHandler.
func (t *traceErrors) Handle(err error) {
	if errors.Is(err, context.Canceled) {
		return // the end of the program
	}
	text := err.Error()
	if last := t.last.Swap(&text); last == nil || *last != text {
		logrus.WithError(err).Warn("traces are not sent")
	}
}
