package main

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/bench/peers"
)

// Names of the measured servers, in tables and ratios.
const (
	nameCriadapter  = "criadapter" // each pod with a sandbox container
	nameWithOCI     = "criadapter-oci"
	nameContainerd  = "containerd"
	nameCRIDockerd  = "cri-dockerd"
	nameRawOrdinary = "raw ordinary"
	nameRawBest     = "raw best"
)

const (
	startTimeout = 30 * time.Second
	pollInterval = 20 * time.Millisecond
	maxMessage   = 64 << 20
)

// criServer is a running CRI server.
type criServer struct {
	name    string
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	conn    *grpc.ClientConn
	// processes are the process ids of the server, and engine the process ids of its engine.
	processes, engine []int
	// state is a directory above the socket of the server's containerd. The shims have the path of that socket on their
	// command lines.
	state string
	// image is the name that was pulled, and imageRef the server's answer, which a kubelet puts into CreateContainer.
	image, imageRef string
	// endpoint is the CRI socket.
	endpoint string
	// bench has the settings of all servers.
	bench *bench
	// kill kills a container behind the server's back.
	kill func(ctx context.Context, id string) error
	// engineHost is the address of the engine that the server drives, if it drives one.
	engineHost string
	// restart restarts the server, and returns the time from its start until it is ready.
	restart func(context.Context) (time.Duration, error)
	// stop ends the server. The caller removes its pods first.
	stop func(context.Context) error
}

// connect dials the CRI socket and waits until the server is ready or exited is closed.
func (s *criServer) connect(ctx context.Context, exited <-chan struct{}) error {
	var err error
	s.conn, err = grpc.NewClient(s.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return err
	}
	s.runtime, s.images = runtimeapi.NewRuntimeServiceClient(s.conn), runtimeapi.NewImageServiceClient(s.conn)
	return s.ready(ctx, exited)
}

// ready waits until the server is ready or exited is closed.
func (s *criServer) ready(ctx context.Context, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		status, err := s.runtime.Status(ctx, &runtimeapi.StatusRequest{})
		if err == nil {
			err = peers.Ready(status.GetStatus())
		}
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s exited", s.name)
		case <-ctx.Done():
			return fmt.Errorf("%s does not become ready: %w", s.name, err)
		case <-time.After(pollInterval):
			s.conn.ResetConnectBackoff()
		}
	}
}

// restarting returns a restart by the functions of a server's process.
func (s *criServer) restarting(
	stop, start func(context.Context) error, pid func() int, ended func() <-chan struct{},
) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		if err := stop(ctx); err != nil {
			return 0, err
		}
		return timed(func() error {
			if err := start(ctx); err != nil {
				return err
			}
			s.processes = []int{pid()}
			return s.ready(ctx, ended())
		})
	}
}

// pull pulls the image of all containers.
func (s *criServer) pull(ctx context.Context, name string) error {
	pulled, err := s.images.PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil {
		return fmt.Errorf("%s: pull %s: %w", s.name, name, err)
	}
	s.image, s.imageRef = name, pulled.GetImageRef()
	return nil
}
