package adapter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/test/rig/logtail"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

const (
	// callTimeout bounds the kubelet client's calls, as the kubelet's --runtime-request-timeout does. It is longer than
	// a kubelet's, for a slow machine.
	callTimeout = 5 * time.Minute
	// maxMessage is the largest answer that the kubelet's client takes, in bytes.
	maxMessage = 16 << 20
)

// quickly makes a client reconnect within a tenth of a second after a restart. Tests then need not wait for gRPC's
// usual back-off.
func quickly() grpc.DialOption {
	return grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: reconnectDelay, Multiplier: 1.2, MaxDelay: 5 * reconnectDelay},
		MinConnectTimeout: time.Second,
	})
}

// connect makes the plain connection. It does not wait: gRPC connects on the first call.
func (s *Server) connect() error {
	if s.Conn != nil {
		s.Conn.ResetConnectBackoff()
		return nil
	}
	endpoint, err := s.Clients()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)), quickly())
	if err != nil {
		return err
	}
	s.Conn = conn
	return nil
}

// Clients is the address for clients that do not set the namespace options of their pods. It is Endpoint, or with
// RUNTIME_MODE=oci the address of a proxy that sets the options as a kubelet does.
func (s *Server) Clients() (string, error) {
	if s.opts.Env.Mode != rigenv.ModeOCI {
		return s.Endpoint, nil
	}
	if s.front == nil {
		var err error
		if s.front, err = startFront(s.Dir, s.Endpoint); err != nil {
			return "", err
		}
	}
	return s.front.endpoint, nil
}

// connectKubeletClient makes the kubelet's clients of the server, which must already answer.
func (s *Server) connectKubeletClient(ctx context.Context) error {
	if s.Runtime != nil {
		return nil
	}
	endpoint, err := s.Clients()
	if err != nil {
		return err
	}
	runtime, err := cri.NewRemoteRuntimeServiceBuilder().
		WithEndpoint(endpoint).WithConnectionTimeout(callTimeout).Build(ctx)
	if err != nil {
		return fmt.Errorf("the kubelet's runtime client: %w", err)
	}
	images, err := cri.NewRemoteImageServiceBuilder().
		WithEndpoint(endpoint).WithConnectionTimeout(callTimeout).Build(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("the kubelet's image client: %w", err), runtime.Close(ctx))
	}
	s.Runtime, s.Images = runtime, images
	return nil
}

func (s *Server) disconnect(ctx context.Context) error {
	var errs []error
	if s.Runtime != nil {
		errs = append(errs, s.Runtime.Close(ctx), s.Images.Close(ctx))
	}
	if s.Conn != nil {
		errs = append(errs, s.Conn.Close())
	}
	if s.front != nil {
		errs = append(errs, s.front.close())
	}
	s.Runtime, s.Images, s.Conn, s.front = nil, nil, nil, nil
	return errors.Join(errs...)
}

// LogTail returns the last 16 KiB of the program's output, or why it cannot be read.
func (s *Server) LogTail() string {
	return logtail.Read(s.LogPath, 16<<10)
}

// RemovePods stops and removes the selected pods through a server's kubelet client. A nil filter selects all pods.
// RemovePods goes on after errors and returns all errors.
func RemovePods(ctx context.Context, runtime internalapi.RuntimeService, filter *runtimeapi.PodSandboxFilter) error {
	sandboxes, err := runtime.ListPodSandbox(ctx, filter)
	errs := []error{err}
	for _, sandbox := range sandboxes {
		id := sandbox.GetId()
		errs = append(errs, runtime.StopPodSandbox(ctx, id), runtime.RemovePodSandbox(ctx, id))
	}
	return errors.Join(errs...)
}
