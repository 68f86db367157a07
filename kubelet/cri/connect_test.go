package cri

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/grpctest"
)

// starting is a runtime whose engine is away during the first two calls of RuntimeConfig.
type starting struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	asked atomic.Int32
}

func (*starting) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "docker", RuntimeVersion: "29",
		RuntimeApiVersion: "v1"}, nil
}

// images is an image service that the client accepts.
type images struct {
	runtimeapi.UnimplementedImageServiceServer
}

func (images) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, nil
}

func (s *starting) RuntimeConfig(
	context.Context, *runtimeapi.RuntimeConfigRequest,
) (*runtimeapi.RuntimeConfigResponse, error) {
	if s.asked.Add(1) <= 2 {
		return nil, status.Error(codes.Unavailable, "the engine is away")
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{
		CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS}}, nil
}

// A runtime whose engine is away does not know its cgroup driver yet. Connect does not mistake it for a runtime without
// RuntimeConfig.
func TestConnectWaitsForTheConfiguration(t *testing.T) {
	path, runtime := filepath.Join(t.TempDir(), "cri.sock"), &starting{}
	listener, err := net.Listen("unix", path)
	testutil.Must(t, err)
	grpctest.Serve(t, listener, func(server *grpc.Server) {
		runtimeapi.RegisterRuntimeServiceServer(server, runtime)
		runtimeapi.RegisterImageServiceServer(server, images{})
	})
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	connected, err := Connect(ctx, Options{Endpoint: "unix://" + path, Owner: "us"})
	testutil.Must(t, err)
	defer func() { testutil.Check(t, connected.Close(context.WithoutCancel(t.Context()))) }()
	driver, err := connected.CgroupDriver(t.Context())
	testutil.Assert(t, err == nil && driver == "cgroupfs" && connected.Name == "docker", "%s, %v", driver, err)
}
