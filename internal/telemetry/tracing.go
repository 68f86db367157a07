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

// perMillion is the sampling rate that traces every request.
const perMillion = 1_000_000

// TracingOptions are the options of NewTracing.
type TracingOptions struct {
	// Endpoint is the OTLP collector over gRPC: http://host:port without TLS, https://host:port with TLS.
	Endpoint string
	// SamplesPerMillion is the number of traced requests in a million, like the kubelet's samplingRatePerMillion. It
	// applies to requests without a trace of their own. For requests with a trace, the client decides.
	SamplesPerMillion int
	// Version is the program's version.
	Version string
}

// Tracing sends spans to a collector in batches in the background. It drops spans that the collector does not accept in
// time.
type Tracing struct {
	provider *trace.TracerProvider
	exporter trace.SpanExporter
}

// NewTracing returns a Tracing without waiting for the collector. The caller must Close it.
func NewTracing(ctx context.Context, opts TracingOptions) (*Tracing, error) {
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(opts.Endpoint))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	provider := trace.NewTracerProvider(
		trace.WithBatcher(textless{exporter}),
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

// ServerOption adds a span per request to a gRPC server, within its clients' traces.
func (t *Tracing) ServerOption() grpc.ServerOption {
	return grpc.StatsHandler(otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(t.provider),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagation.TraceContext{}),
	))
}

// Close sends the remaining spans until ctx ends, and ends the goroutines.
func (t *Tracing) Close(ctx context.Context) error {
	err := t.provider.Shutdown(ctx)
	if err == nil {
		return nil
	}
	// If ctx has ended, the exporter may still have a request to the collector under way. The provider does not wait
	// for that request. The shutdown of the exporter aborts it.
	err = errors.Join(err, t.exporter.Shutdown(ctx))
	return fmt.Errorf("sending the last spans: %w", err)
}
