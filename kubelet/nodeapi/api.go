package nodeapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Runtime is the part of CRI that the API needs. cri.Runtime implements it.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
	PodStatus(ctx context.Context, uid types.UID) (*model.PodStatus, error)
	Exec(ctx context.Context, request *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	Attach(ctx context.Context, request *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	PortForward(ctx context.Context, request *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
	ExecSync(ctx context.Context, containerID string, cmd []string,
		timeout time.Duration) (stdout, stderr []byte, err error)
}

// APIOptions configure the kubelet's API. Address, Reads, Runtime, NodeName and ClientCAFile are required. A serving
// certificate is required, too: CertFile with KeyFile, or CertDir.
type APIOptions struct {
	// Address is host:port. An empty host means all addresses.
	Address string
	Reads   Reads
	Runtime Runtime
	// CertFile and KeyFile are PEM files of the serving certificate and its key. They are read again after a renewal.
	// Without them a self-signed pair for NodeName and IPs is kept in CertDir. It is renewed in time, and when IPs
	// returns another address. A nil IPs means no addresses.
	CertFile, KeyFile string
	CertDir           string
	NodeName          string
	IPs               func() []string
	// ClientCAFile has the PEM certificates of the authorities for client certificates. It is read again after a
	// change.
	ClientCAFile string
	// Users and Groups are the clients that may use the API: the common name and the organizations of a certificate. If
	// both are empty, Reviewer is asked about each client.
	Users, Groups []string
	// Reviewer authenticates tokens and authorizes clients. If it is nil, tokens are refused, and only Users and Groups
	// have access.
	Reviewer Reviewer
}

// API is the kubelet's API.
type API struct {
	*reads
	runtime  Runtime
	listener net.Listener
	handler  http.Handler
	sessions sessions
}

// ListenTLS opens the kubelet's API. It returns an error for bad files and addresses. Run serves the API.
func ListenTLS(opts APIOptions) (*API, error) {
	serving, err := servingCertificates(opts)
	if err != nil {
		return nil, fmt.Errorf("kubelet's API: %w", err)
	}
	clients, err := newAuthenticator(opts)
	if err != nil {
		return nil, fmt.Errorf("kubelet's API: %w", err)
	}
	listener, err := net.Listen("tcp", opts.Address)
	if err != nil {
		return nil, fmt.Errorf("kubelet's API: %w", err)
	}
	api := &API{reads: newReads(opts.Reads), runtime: opts.Runtime}
	api.listener = tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: serving, NextProtos: []string{"http/1.1"},
		// The HTTP handlers check certificates, so a client without a valid one gets the reason.
		ClientAuth: tls.RequestClientCert,
	})
	allowed := &authorizer{users: opts.Users, groups: opts.Groups, reviewer: opts.Reviewer, node: opts.NodeName}
	api.handler = filter(clients, allowed, api.mux())
	return api, nil
}

// mux has the kubelet's paths. Paths of a pod exist with and without its UID.
func (s *API) mux() *http.ServeMux {
	mux := http.NewServeMux()
	s.routes(mux)
	mux.HandleFunc("GET /runningpods", s.runningPods)
	mux.HandleFunc("GET /runningpods/{$}", s.runningPods)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	for _, path := range []string{"/{namespace}/{pod}/{container}", "/{namespace}/{pod}/{uid}/{container}"} {
		mux.HandleFunc("POST /run"+path, s.run)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			mux.HandleFunc(method+" /exec"+path, s.exec)
			mux.HandleFunc(method+" /attach"+path, s.attach)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}", s.portForward)
		mux.HandleFunc(method+" /portForward/{namespace}/{pod}/{uid}", s.portForward)
	}
	return mux
}

// Address returns the listening address.
func (s *API) Address() string { return s.listener.Addr().String() }

// Run serves until ctx ends, and then ends all sessions.
func (s *API) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err := serve(ctx, s.listener, s.handler)
	cancel() // sessions end even if the listener failed
	s.sessions.end()
	return err
}
