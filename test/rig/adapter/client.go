package adapter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/test/rig/logtail"
)

const (
	// callTimeout bounds the kubelet client's calls, as the kubelet's --runtime-request-timeout does.
	callTimeout = 2 * time.Minute
	// maxMessage is the largest answer that the kubelet's client takes, in bytes.
	maxMessage = 16 << 20
)

// connect makes the plain connection. It does not wait: gRPC connects on the first call and again after a restart,
// within a tenth of a second so that tests need not wait for its usual back-off.
func (s *Server) connect() error {
	if s.Conn != nil {
		s.Conn.ResetConnectBackoff()
		return nil
	}
	quick := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: pollInterval, Multiplier: 1.2, MaxDelay: 5 * pollInterval},
		MinConnectTimeout: time.Second,
	}
	conn, err := grpc.NewClient(s.Endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(quick))
	if err != nil {
		return err
	}
	s.Conn = conn
	return nil
}

// connectKubeletClient makes the kubelet's client of the server, which must answer.
func (s *Server) connectKubeletClient(ctx context.Context) error {
	if s.Runtime != nil {
		return nil
	}
	runtime, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(s.Endpoint).WithConnectionTimeout(callTimeout).Build(ctx)
	if err != nil {
		return fmt.Errorf("the kubelet's runtime client: %w", err)
	}
	images, err := cri.NewRemoteImageServiceBuilder().WithEndpoint(s.Endpoint).WithConnectionTimeout(callTimeout).Build(ctx)
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
	s.Runtime, s.Images, s.Conn = nil, nil, nil
	return errors.Join(errs...)
}

// LogTail returns the last 16 KiB of the program's output, or why it cannot be read.
func (s *Server) LogTail() string {
	return logtail.Read(s.LogPath, 16<<10)
}
