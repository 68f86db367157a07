package grpctest

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Collector is an OTLP collector that keeps all spans. Its methods are safe for concurrent use.
type Collector struct {
	traces.UnimplementedTraceServiceServer
	// Endpoint is its URL.
	Endpoint string

	mu     sync.Mutex
	spans  []*otlp.Span
	sender map[string]string
}

// Collect starts a collector that ends with the test.
func Collect(t testing.TB) *Collector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testutil.Must(t, err)
	c := &Collector{Endpoint: "http://" + listener.Addr().String(), sender: map[string]string{}}
	Serve(t, listener, func(server *grpc.Server) { traces.RegisterTraceServiceServer(server, c) })
	return c
}

// Export implements traces.TraceServiceServer.
func (c *Collector) Export(
	_ context.Context, request *traces.ExportTraceServiceRequest,
) (*traces.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.GetResourceSpans() {
		for _, attribute := range resource.GetResource().GetAttributes() {
			c.sender[attribute.GetKey()] = attribute.GetValue().GetStringValue()
		}
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	return &traces.ExportTraceServiceResponse{}, nil
}

// Spans returns all spans in the order of their arrival.
func (c *Collector) Spans() []*otlp.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Sender returns the resource attributes of the senders, such as service.name.
func (c *Collector) Sender() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.sender)
}
