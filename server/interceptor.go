package server

import (
	"context"
	"fmt"
	"path"
	"runtime/debug"
	"time"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// UnaryInterceptor stands before every unary RPC: it bounds its time, recovers
// from a panic, turns its error into a gRPC status and logs it.
func (s *Server) UnaryInterceptor(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	call := s.begin(info.FullMethod)
	defer func() {
		if cause := recover(); cause != nil {
			resp, err = nil, call.panicked(cause)
		}
		err = toStatus(err)
		if !changes[call.method] && logrus.IsLevelEnabled(call.level(err)) {
			call.about(s.describe(req))
		}
		call.end(resp, err)
	}()
	if changes[call.method] { // afterwards it may be gone
		call.about(s.describe(req))
	}
	ctx, cancel := s.bound(ctx, req)
	defer cancel()
	return handler(ctx, req)
}

// StreamInterceptor is UnaryInterceptor for RPCs that answer with a stream,
// whose time only the client bounds.
func (s *Server) StreamInterceptor(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	call := s.begin(info.FullMethod)
	defer func() {
		if cause := recover(); cause != nil {
			err = call.panicked(cause)
		}
		err = toStatus(err)
		call.end(nil, err)
	}()
	return handler(srv, stream)
}

// changes are the RPCs that change something on the node. Each gets a line in
// the log; the others would fill it, as the kubelet lists every second.
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

// call is one request on its way.
type call struct {
	method  string
	number  uint64
	begun   time.Time
	fields  logrus.Fields // what it is about, nil while nobody wants to know
	observe func(method string, code codes.Code, took time.Duration)
}

func (s *Server) begin(fullMethod string) *call {
	method := path.Base(fullMethod)
	return &call{
		method:  method,
		number:  s.requests.Add(1),
		begun:   time.Now(),
		observe: s.opts.Observe,
	}
}

// about notes what the request is about for the log.
func (c *call) about(fields logrus.Fields) { c.fields = fields }

// log returns an entry for the log with what is known of the request.
func (c *call) log() *logrus.Entry {
	return logrus.WithFields(c.fields).WithFields(logrus.Fields{"rpc": c.method, "request": c.number})
}

// panicked logs a panic with its stack and returns the error for the client,
// who gets to know neither.
func (c *call) panicked(cause any) error {
	c.log().WithField("stack", string(debug.Stack())).Errorf("panic: %v", cause)
	return fmt.Errorf("%s failed unexpectedly, see the log of criadapter: %w", c.method, errdefs.ErrInternal)
}

// end counts and logs a request that is over. A log line that nobody reads costs nothing: the kubelet
// asks many times a second.
func (c *call) end(resp any, err error) {
	took := time.Since(c.begun)
	c.observe(c.method, status.Code(err), took)
	level := c.level(err)
	if !logrus.IsLevelEnabled(level) {
		return
	}
	entry := c.log().WithFields(describeResponse(resp)).
		WithField("took", took.Round(time.Microsecond))
	if err != nil {
		entry = entry.WithError(err)
	}
	entry.Log(level, "CRI request")
}

func (c *call) level(err error) logrus.Level {
	switch code := status.Code(err); {
	case code == codes.Internal:
		return logrus.ErrorLevel
	case !changes[c.method]:
		return logrus.DebugLevel
	case code == codes.OK, code == codes.Canceled:
		return logrus.InfoLevel
	default:
		return logrus.WarnLevel
	}
}
