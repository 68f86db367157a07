package telemetry

import (
	"context"
	"errors"
	"net"
	"path"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/grpctest"
)

// named returns the collected spans by the last part of their names.
func named(c *grpctest.Collector) map[string]*otlp.Span {
	spans := map[string]*otlp.Span{}
	for _, span := range c.Spans() {
		spans[path.Base(span.GetName())] = span
	}
	return spans
}

// versions answers Version after an engine call that works and a CNI operation that fails.
type versions struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	metrics *Metrics
}

// StartContainer fails with an error that quotes the request.
func (versions) StartContainer(
	context.Context, *runtimeapi.StartContainerRequest,
) (*runtimeapi.StartContainerResponse, error) {
	return nil, status.Error(codes.Internal, "the command is $ecret")
}

func (v versions) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	calling, called := v.metrics.EngineCall(ctx, "list containers")
	_, inner := v.metrics.EngineCall(calling, "connect")
	inner(nil)
	called(nil)
	_, joined := v.metrics.CNIOperation(ctx, "ADD")
	joined(errors.New("a $ecret of the plugin"))
	return &runtimeapi.VersionResponse{}, nil
}

// ask sends a Version request, and another request that fails, to a traced server. The span of a request ends after the
// client has its response, and before the server has stopped.
func ask(t *testing.T, tracing *Tracing, ctx context.Context) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	server := grpctest.Serve(t, listener, func(server *grpc.Server) {
		runtimeapi.RegisterRuntimeServiceServer(server,
			versions{metrics: NewMetrics(MetricsOptions{Tracer: tracing.Tracer()})})
	}, tracing.ServerOption())
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	testutil.Must(t, err)
	client := runtimeapi.NewRuntimeServiceClient(conn)
	_, err = client.Version(ctx, &runtimeapi.VersionRequest{})
	_, failed := client.StartContainer(ctx, &runtimeapi.StartContainerRequest{})
	testutil.Assert(t, status.Code(failed) == codes.Internal, "StartContainer: %v", failed)
	testutil.Must(t, errors.Join(err, conn.Close()))
	server.GracefulStop()
}

// kubelet returns the context of a request that belongs to a trace.
func kubelet(t *testing.T, flags trace.TraceFlags) (context.Context, trace.SpanContext) {
	t.Helper()
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5, 6}, TraceFlags: flags,
	})
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(t.Context(), span), header)
	return metadata.AppendToOutgoingContext(t.Context(), "traceparent", header.Get("traceparent")), span
}

func TestKubeletsTraceIsContinued(t *testing.T) {
	c := grpctest.Collect(t)
	tracing, err := NewTracing(t.Context(), TracingOptions{Endpoint: c.Endpoint, Version: "v1.2.3"}) // begins no traces
	testutil.Must(t, err)
	ctx, parent := kubelet(t, trace.FlagsSampled)
	ask(t, tracing, ctx)
	testutil.Must(t, tracing.Close(t.Context()))
	spans := named(c)
	rpc, call, inner, cni := spans["Version"], spans["docker list containers"], spans["docker connect"],
		spans["CNI ADD"]
	testutil.Require(t, rpc != nil && call != nil && inner != nil && cni != nil, "spans are missing: %v", spans)
	above := parent.SpanID()
	for _, link := range []struct {
		name   string
		span   *otlp.Span
		parent []byte
	}{
		{"the request", rpc, above[:]},
		{"the engine call", call, rpc.GetSpanId()},
		{"the call inside", inner, call.GetSpanId()},
		{"the CNI operation", cni, rpc.GetSpanId()},
	} {
		id := parent.TraceID()
		testutil.Assert(t, string(link.span.GetTraceId()) == string(id[:]) &&
			string(link.span.GetParentSpanId()) == string(link.parent),
			"the span of %s has the wrong trace or parent: %v", link.name, link.span)
	}
	if cni.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || strings.Contains(cni.String(), "$ecret") {
		t.Errorf("want an error without its text, got %v", cni)
	}
	start := spans["StartContainer"]
	testutil.Assert(t, start.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR &&
		!strings.Contains(start.String(), "$ecret"), "want an error without its text, got %v", start)
	sender := c.Sender()
	testutil.Assert(t, sender["service.name"] == "criadapter" && sender["service.version"] == "v1.2.3",
		"sent by %v", sender)
}

func TestSampling(t *testing.T) {
	unsampled, _ := kubelet(t, 0)
	for _, test := range []struct {
		name string
		rate int
		ctx  context.Context
		want bool
	}{
		{"no trace, rate 0", 0, t.Context(), false},
		{"no trace, all", perMillion, t.Context(), true},
		{"a trace that its client does not record", perMillion, unsampled, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := grpctest.Collect(t)
			tracing, err := NewTracing(t.Context(), TracingOptions{Endpoint: c.Endpoint, SamplesPerMillion: test.rate})
			testutil.Must(t, err)
			ask(t, tracing, test.ctx)
			testutil.Must(t, tracing.Close(t.Context()))
			testutil.Equal(t, len(named(c)) > 0, test.want, "recorded")
		})
	}
}

// TestCollectorAway checks that neither a call nor the end of the program waits for a collector that does not answer.
func TestCollectorAway(t *testing.T) {
	noMoreGoroutines := testutil.NoMoreGoroutines(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	testutil.Must(t, err)
	defer taken.Close()
	tracing, err := NewTracing(t.Context(),
		TracingOptions{Endpoint: "http://" + taken.Addr().String(), SamplesPerMillion: perMillion})
	testutil.Must(t, err)
	m := NewMetrics(MetricsOptions{Tracer: tracing.Tracer()})
	begun := time.Now()
	for range 10_000 { // more than the queue takes
		_, done := m.EngineCall(t.Context(), "ping")
		done(nil)
	}
	took := time.Since(begun)
	testutil.Assert(t, took <= 5*time.Second, "10000 calls took %s", took)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun = time.Now()
	testutil.Assert(t, tracing.Close(ctx) != nil, "Close succeeded without a collector")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("Close took %s", took)
	}
	noMoreGoroutines()
}
