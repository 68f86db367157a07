package streaming

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// PortForward returns the URL for connections to the pod's ports. SPDY clients name any port with each connection.
// Clients of the older WebSocket protocol get the ports of the request. It fails like Exec.
func (s *Server) PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (string, error) {
	for _, port := range req.GetPort() {
		if port < 1 || port > 65535 {
			return "", fmt.Errorf("port must be between 1 and 65535, got %d: %w", port, errdefs.ErrInvalidArgument)
		}
	}
	f := forward{server: s, sandboxID: req.GetPodSandboxId(), ports: slices.Clone(req.GetPort())}
	return s.url(ctx, kindPortForward, f.serve)
}

// forward is the pod and the ports of a PortForwardRequest.
type forward struct {
	server    *Server
	sandboxID string
	ports     []int32
}

func (f forward) serve(current *session, w http.ResponseWriter, r *http.Request) {
	to := forwarder{forward: f, ctx: r.Context(), session: current}
	switch {
	case wsstream.IsWebSocketRequestWithTunnelingProtocol(r):
		serveTunnel(w, r, to.serveSPDY)
	case wsstream.IsWebSocketRequest(r):
		portforward.ServePortForward(w, r, to, f.sandboxID, "", &portforward.V4Options{Ports: f.ports}, f.server.idle,
			creationTimeout, nil)
	default:
		to.serveSPDY(w, r)
	}
}

// forwarder forwards connections for one session. It is a portforward.PortForwarder for the older WebSocket protocol.
type forwarder struct {
	forward
	ctx     context.Context
	session *session
}

// PortForward implements portforward.PortForwarder. It uses f.ctx, since its own context does not end with the client.
func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	f.session.work.Add(1)
	defer f.session.work.Done()
	defer noPanic(f.ctx, kindPortForward) // this goroutine is the library's
	return f.connect(uint16(port), stream, func() {})
}

// connect connects a stream of the client to a port of the pod until both have ended. podEnded is called when the pod
// has ended its direction.
func (f forwarder) connect(port uint16, stream io.ReadWriteCloser, podEnded func()) error {
	network, err := f.server.runtime.Network(f.ctx, f.sandboxID)
	if err != nil {
		return err
	}
	conn, err := dial(f.ctx, network, port)
	if err != nil {
		return err
	}
	relay(f.ctx, stream, conn, podEnded)
	return nil
}
