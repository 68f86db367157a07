package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// operations counts operations of one kind, which take time, can fail and have spans.
type operations struct {
	tracer trace.Tracer
	// span is the prefix of the spans' names.
	span string
	kind trace.SpanKind

	// count has the labels name and outcome, and time has the label name. If sole is true, there is only one name, and
	// both lack its label.
	count *prometheus.CounterVec
	time  *prometheus.HistogramVec
	sole  bool
}

// begin starts the clock and the span of an operation. The returned function stops both. The span gets only the kind of
// the error. The error's text may quote a container's configuration, and traces leave the machine.
func (o *operations) begin(ctx context.Context, name string) (context.Context, func(error)) {
	started := time.Now()
	ctx, span := o.tracer.Start(ctx, o.span+name, trace.WithSpanKind(o.kind))
	return ctx, func(err error) {
		result := outcome(err)
		names := []string{name}
		if o.sole {
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
