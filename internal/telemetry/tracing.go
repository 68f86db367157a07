package telemetry

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

// scope is the name of the instrumentation in our spans.
const scope = "github.com/criadapter/criadapter"

// perMillion is the sampling rate at which everything is traced.
const perMillion = 1_000_000

// TracingOptions are the options of NewTracing.
type TracingOptions struct {
	// Endpoint is the collector, by OTLP over gRPC: http://host:port in the clear, https://host:port with TLS.
	Endpoint string
	// SamplesPerMillion is how many of a million requests without a trace of their own are traced, as the kubelet's
	// samplingRatePerMillion. Whether one with a trace is traced is what its client decided.
	SamplesPerMillion int
	// Version is the program's.
	Version string
}

// Tracing sends spans to a collector, in batches, in the background. Spans that a
// collector does not take in time are dropped: nothing waits for it.
type Tracing struct {
	provider *trace.TracerProvider
	exporter trace.SpanExporter
}

// NewTracing returns a Tracing without waiting for the collector. Close ends it.
func NewTracing(ctx context.Context, opts TracingOptions) (*Tracing, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(opts.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	provider := trace.NewTracerProvider(
		trace.WithBatcher(exporter),
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(float64(opts.SamplesPerMillion)/perMillion))),
		trace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", namespace),
			attribute.String("service.version", opts.Version),
		)),
	)
	return &Tracing{provider: provider, exporter: exporter}, nil
}

// Tracer makes spans.
func (t *Tracing) Tracer() oteltrace.Tracer { return t.provider.Tracer(scope) }

// ServerOption makes a gRPC server continue its clients' traces with a span per request.
func (t *Tracing) ServerOption() grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
	))
}

// Close sends what is left, until ctx ends, and ends the goroutines.
func (t *Tracing) Close(ctx context.Context) error {
	err := t.provider.Shutdown(ctx)
	if err == nil {
		return nil
	}
	// The provider has given up waiting for a request that goes on. With its
	// context over, the exporter's own end cuts it off.
	err = errors.Join(err, t.exporter.Shutdown(ctx))
	return fmt.Errorf("sending the last spans: %w", err)
}
