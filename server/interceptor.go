package server

import (
	"context"
	"path"
	"time"

	"github.com/containerd/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/criadapter/criadapter/internal/panics"
	"github.com/criadapter/criadapter/server/fields"
)

// unaryInterceptor handles every unary RPC. It bounds the time, refuses fields that no engine supports, recovers from
// panics, converts the error to a gRPC status and logs it. The handler's context has the request's logger, see
// requestFields.
func (s *Server) unaryInterceptor(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (resp any, err error) {
	call := s.begin(info.FullMethod)
	defer func() {
		if cause := recover(); cause != nil {
			resp, err = nil, panics.Report(call.log(), "request", call.method, cause)
		}
		err = toStatus(err)
		call.end(resp, err)
	}()
	ctx, cancel := s.bound(s.withLogger(ctx, call, req), req)
	defer cancel()
	if message, ok := req.(proto.Message); ok {
		if err := fields.Check(message); err != nil {
			return nil, err
		}
	}
	return handler(ctx, req)
}

// streamInterceptor is unaryInterceptor for RPCs that answer with a stream. Only the client bounds their time.
func (s *Server) streamInterceptor(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) (err error) {
	call := s.begin(info.FullMethod)
	defer func() {
		if cause := recover(); cause != nil {
			err = panics.Report(call.log(), "request", call.method, cause)
		}
		err = toStatus(err)
		call.end(nil, err)
	}()
	return handler(srv, &loggedStream{ServerStream: stream, ctx: s.withLogger(stream.Context(), call, nil)})
}

// loggedStream is a stream whose context carries the request's logger.
type loggedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (s *loggedStream) Context() context.Context { return s.ctx }

// changes are the RPCs that change the node. They are logged at level info, and all other RPCs at debug, because the
// kubelet lists every second.
var changes = map[string]bool{
	"RunPodSandbox":             true,
	"StopPodSandbox":            true,
	"RemovePodSandbox":          true,
	"CreateContainer":           true,
	"StartContainer":            true,
	"StopContainer":             true,
	"RemoveContainer":           true,
	"UpdateContainerResources":  true,
	"UpdatePodSandboxResources": true,
	"UpdateRuntimeConfig":       true,
	"ReopenContainerLog":        true,
	"CheckpointContainer":       true,
	"CheckpointPod":             true,
	"RestorePod":                true,
	"PullImage":                 true,
	"RemoveImage":               true,
}

// fromMemory are the RPCs that the server answers from memory. The kubelet calls them many times a second, and no
// package logs a line for them. They get a logger only if their own debug line is enabled.
var fromMemory = map[string]bool{
	"Version":               true,
	"ListPodSandbox":        true,
	"PodSandboxStatus":      true,
	"ListContainers":        true,
	"ContainerStatus":       true,
	"ListMetricDescriptors": true,
}

// call is one request.
type call struct {
	method  string
	number  uint64
	started time.Time
	logger  *log.Entry // nil until withLogger
	observe func(method string, code codes.Code, took time.Duration)
}

func (s *Server) begin(fullMethod string) *call {
	return &call{
		method:  path.Base(fullMethod),
		number:  s.requests.Add(1),
		started: time.Now(),
		observe: s.opts.Observe,
	}
}

// withLogger returns the context for a request's handler, with a logger that adds the request's fields. It reads the
// names now, because the request may remove the pod or container.
func (s *Server) withLogger(ctx context.Context, c *call, req any) context.Context {
	if fromMemory[c.method] && !log.L.Logger.IsLevelEnabled(log.DebugLevel) {
		return ctx
	}
	c.logger = log.L.WithFields(s.requestFields(ctx, c, req))
	return log.WithLogger(ctx, c.logger)
}

func (c *call) log() *log.Entry {
	if c.logger == nil {
		c.logger = log.L.WithFields(log.Fields{"request": c.number, "rpc": c.method})
	}
	return c.logger
}

// end counts and logs a finished request. It makes no log line of a disabled level, because the kubelet sends many
// requests a second.
func (c *call) end(resp any, err error) {
	took := time.Since(c.started)
	c.observe(c.method, status.Code(err), took)
	level := c.level(err)
	if !log.L.Logger.IsLevelEnabled(level) {
		return
	}
	entry := c.log().WithFields(responseFields(resp)).
		WithField("duration", took.Round(time.Microsecond))
	if err != nil {
		entry = entry.WithError(err)
	}
	entry.Log(level, "CRI request")
}

func (c *call) level(err error) log.Level {
	switch code := status.Code(err); {
	case code == codes.Internal:
		return log.ErrorLevel
	case !changes[c.method]:
		return log.DebugLevel
	case code == codes.OK, code == codes.Canceled:
		return log.InfoLevel
	default:
		return log.WarnLevel
	}
}
