package check

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/grpctest"
)

// busyServer is a CRI server that answers only Version.
type busyServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

func (busyServer) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "docker", RuntimeVersion: "20.10.24"}, nil
}

func (busyServer) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return nil, status.Error(codes.DeadlineExceeded, "busy")
}

// A busy server may be criadapter although it does not report its status. The check must not ask to stop it.
func TestBusyServerIsNoStranger(t *testing.T) {
	cfg, dir := emptyNode(t)
	listener, err := net.Listen("unix", dir+"/cri.sock")
	testutil.Must(t, err)
	grpctest.Serve(t, listener, func(server *grpc.Server) {
		runtimeapi.RegisterRuntimeServiceServer(server, busyServer{})
	})
	f := find(t, judgeNode(gather(t.Context(), Options{Config: cfg})), "CRI socket")
	testutil.Assert(t, f.Status == checklist.Warn && strings.Contains(f.Text, "docker 20.10.24 answers") &&
		strings.Contains(f.Text, "busy"), "got %+v", f)
}

// Each CRI server that answers is found, even cri-dockerd in k3s, which manages the same containers.
func TestOtherRuntimesAreFound(t *testing.T) {
	testutil.Assert(t, slices.Contains(otherSockets(), "/run/k3s/cri-dockerd/cri-dockerd.sock"),
		"the socket of k3s --docker is not in %v", otherSockets())
	other := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := net.Listen("unix", other)
	testutil.Must(t, err)
	grpctest.Serve(t, listener, func(server *grpc.Server) {
		runtimeapi.RegisterRuntimeServiceServer(server, busyServer{})
	})
	found := otherRuntimes(t.Context(), []string{other, other + ".none"}, "/run/own.sock")
	testutil.Assert(t, len(found) == 1 && found[0].Name == "docker 20.10.24", "%+v", found)
	testutil.Equal(t, len(otherRuntimes(t.Context(), []string{other}, other)), 0, "its own socket")
}
