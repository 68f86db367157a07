package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// operations are things of one sort that take time, can fail, and are spans.
type operations struct {
	tracer trace.Tracer
	// span is what the names of the spans begin with.
	span string
	kind trace.SpanKind

	// count is by name and outcome, time by name, or without the name where there is but one.
	count *prometheus.CounterVec
	time  *prometheus.HistogramVec
	one   bool
}

// begin starts the clock and the span of an operation; the function stops both. The span gets the error's kind alone,
// because its text may quote what a container was given, and traces leave the machine.
func (o *operations) begin(ctx context.Context, name string) (context.Context, func(error)) {
	started := time.Now()
	ctx, span := o.tracer.Start(ctx, o.span+name, trace.WithSpanKind(o.kind))
	return ctx, func(err error) {
		result := outcome(err)
		names := []string{name}
		if o.one {
			names = nil
		}
		o.time.WithLabelValues(names...).Observe(time.Since(started).Seconds())
		o.count.WithLabelValues(append(names, result)...).Inc()
		span.SetAttributes(attribute.String("outcome", result))
		if err != nil {
			span.SetStatus(codes.Error, result)
		}
		span.End()
	}
}
