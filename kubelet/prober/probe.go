package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-client/pkg"
	utilexec "k8s.io/utils/exec"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/httpget"
	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	// userAgent is the User-Agent of HTTP and gRPC probes.
	userAgent = "kube-probe/kubelet-core"
	// maxText bounds the part of an answer that is read and shown, in bytes.
	maxText = 10 << 10
)

// result is the result of a probe.
type result struct {
	// failure is the reason of a failed probe, empty if the probe passed. warning is a warning of a probe that passed.
	failure, warning string
}

// probe makes one probe. An error means that it could not be made.
func (m *Manager) probe(ctx context.Context, t target) (r result, err error) {
	timeout := time.Duration(t.probe.TimeoutSeconds) * time.Second
	switch {
	case t.probe.Exec != nil:
		r.failure, err = m.exec(ctx, t, timeout)
	case t.probe.HTTPGet != nil:
		return httpGet(ctx, t, timeout)
	case t.probe.TCPSocket != nil:
		r.failure, err = tcp(ctx, t, timeout)
	case t.probe.GRPC != nil:
		r.failure, err = grpcHealth(ctx, t, timeout)
	default:
		err = errors.New("the probe has none of exec, httpGet, tcpSocket, grpc")
	}
	return r, err
}

func (m *Manager) exec(ctx context.Context, t target, timeout time.Duration) (string, error) {
	stdout, stderr, err := m.opts.Exec.ExecSync(ctx, t.id, t.probe.Exec.Command, timeout)
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &exit):
		return fmt.Sprintf("exit code %d: %s", exit.ExitStatus(), text(append(stdout, stderr...))), nil
	case errors.Is(err, cri.ErrCommandTimedOut), status.Code(err) == codes.DeadlineExceeded:
		return fmt.Sprintf("command timed out after %v", timeout), nil
	default:
		return "", err
	}
}

func text(raw []byte) string {
	return strings.TrimSpace(string(raw[:min(len(raw), maxText)]))
}

// address is the address that a probe connects to: the probe's own host, or else the pod.
func address(t target, host string, port int) string {
	host = cmp.Or(host, t.ip)
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// httpGet makes the request. A redirect to another host is not followed, and counts as success.
func httpGet(ctx context.Context, t target, timeout time.Duration) (result, error) {
	request, err := httpget.Request(ctx, t.probe.HTTPGet, t.container, t.ip, userAgent)
	if err != nil {
		return result{}, err
	}
	answer, err := httpget.Client(timeout).Do(request)
	if err != nil {
		return result{failure: err.Error()}, nil
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxText))
	switch code := answer.StatusCode; {
	case err != nil:
		return result{failure: err.Error()}, nil
	case code < http.StatusOK || code >= http.StatusBadRequest:
		return result{failure: fmt.Sprintf("HTTP probe failed with statuscode: %d: %s", code, text(body))}, nil
	case code >= http.StatusMultipleChoices:
		return result{warning: "Probe terminated redirects, Response body: " + text(body)}, nil
	}
	return result{}, nil
}

func tcp(ctx context.Context, t target, timeout time.Duration) (string, error) {
	port, err := model.ResolvePort(t.probe.TCPSocket.Port, t.container)
	if err != nil {
		return "", err
	}
	dialer := httpget.Dialer()
	dialer.Timeout = timeout
	conn, err := dialer.DialContext(ctx, "tcp", address(t, t.probe.TCPSocket.Host, port))
	if err != nil {
		return err.Error(), nil
	}
	conn.Close()
	return "", nil
}

func grpcHealth(ctx context.Context, t target, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	to := address(t, "", int(t.probe.GRPC.Port))
	conn, err := grpc.NewClient("passthrough:///"+to,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(userAgent), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return httpget.Dialer().DialContext(ctx, "tcp", to)
		}))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	service := ptr.Deref(t.probe.GRPC.Service, "")
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	switch {
	case err != nil:
		return fmt.Sprintf("service %q at %s: %v", service, to, err), nil
	case answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return fmt.Sprintf("service %q at %s answered %s", service, to, answer.GetStatus()), nil
	default:
		return "", nil
	}
}
