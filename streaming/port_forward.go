package streaming

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// PortForward returns the URL at which ports of the pod will be reached. SPDY clients name the port with each
// connection, and may name any; the ports of the request count for those that speak the older WebSocket protocol. It
// fails as Exec does.
func (s *Server) PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (string, error) {
	for _, port := range req.GetPort() {
		if port < 1 || port > 65535 {
			return "", fmt.Errorf("port must be between 1 and 65535, one is %d: %w", port, errdefs.ErrInvalidArgument)
		}
	}
	f := forward{server: s, sandboxID: req.GetPodSandboxId(), ports: slices.Clone(req.GetPort())}
	return s.url(ctx, kindPortForward, f.serve)
}

// forward is a pod whose ports a client will reach.
type forward struct {
	server    *Server
	sandboxID string
	ports     []int32
}

func (f forward) serve(current *session, w http.ResponseWriter, r *http.Request) {
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		serveTunnel(w, r, func(w http.ResponseWriter, r *http.Request) { f.servePlain(current, w, r) })
		return
	}
	f.servePlain(current, w, r)
}

func (f forward) servePlain(current *session, w http.ResponseWriter, r *http.Request) {
	portforward.ServePortForward(w, r, forwarder{forward: f, ctx: r.Context(), session: current}, f.sandboxID, "",
		&portforward.V4Options{Ports: f.ports}, f.server.idle, creationTimeout, portforward.SupportedProtocols)
}

// forwarder is a portforward.PortForwarder for one session. The library passes no context that ends with the client.
type forwarder struct {
	forward
	ctx     context.Context
	session *session
}

// PortForward implements portforward.PortForwarder: it connects one stream of the client to a port of the pod until
// both have ended. What it returns is told to the client; the session goes on. (Clients based on client-go show the
// message and then end the session themselves.)
func (f forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	f.session.work.Add(1)
	defer f.session.work.Done()
	defer noPanic(f.ctx, kindPortForward) // this goroutine is the library's
	conn, err := f.reach(port)
	if err != nil {
		awaitAccepted(stream)
		return err
	}
	relay(f.ctx, stream, conn)
	return nil
}

func (f forwarder) reach(port int32) (*net.TCPConn, error) {
	network, err := f.server.runtime.Network(f.ctx, f.sandboxID)
	if err != nil {
		return nil, err
	}
	return dial(f.ctx, network, uint16(port))
}

// awaitAccepted returns when the client has been told that its SPDY stream is accepted, which the library does
// meanwhile: a write waits for it. A reset that came before would look like a stream that was never accepted, and the
// client would not learn why.
func awaitAccepted(stream io.ReadWriteCloser) {
	if _, spdy := stream.(interface{ Reset() error }); spdy {
		_, _ = stream.Write(nil)
	}
}
