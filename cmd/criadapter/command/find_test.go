package command

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cmd/criadapter/status"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/grpctest"
)

// criServer is a CRI server, and criadapter if info has a report.
type criServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	info map[string]string
}

func (criServer) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "docker", RuntimeVersion: "29.1.0"}, nil
}

func (s criServer) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Info: s.info}, nil
}

// serveCRI serves on a socket until the test ends, and returns the endpoint.
func serveCRI(t *testing.T, path string, info map[string]string) string {
	t.Helper()
	listener, err := net.Listen("unix", path)
	testutil.Must(t, err)
	grpctest.Serve(t, listener, func(server *grpc.Server) {
		runtimeapi.RegisterRuntimeServiceServer(server, criServer{info: info})
	})
	return "unix://" + path
}

func TestEndpoints(t *testing.T) {
	for name, test := range map[string]struct {
		endpoint, origin string
		want             []string
	}{
		"default": {usualSocket, "default", []string{usualSocket, dropInSocket}},
		"file":    {"unix:///f.sock", "/c.yaml:1", []string{"unix:///f.sock", usualSocket, dropInSocket}},
		"flag":    {"unix:///f.sock", "flag --container-runtime-endpoint", []string{"unix:///f.sock"}},
		"environment": {"unix:///f.sock", "environment CRIADAPTER_CONTAINER_RUNTIME_ENDPOINT",
			[]string{"unix:///f.sock"}},
		"systemd's": {"fd://", "flag --container-runtime-endpoint", []string{usualSocket, dropInSocket}},
	} {
		cfg := config.Default()
		cfg.Endpoint = test.endpoint
		settings := []config.Setting{{Name: "log-level", Origin: "flag --log-level"},
			{Name: "container-runtime-endpoint", Value: test.endpoint, Origin: test.origin}}
		got := endpointsOf(cfg, settings)
		testutil.Assert(t, slices.Equal(got, test.want), "%s: %q, want %q", name, got, test.want)
	}
}

// The server of the package criadapter-cri-docker is found at the second socket, unless another program answers there.
func TestFindTheRunningServer(t *testing.T) {
	dir := t.TempDir()
	away := "unix://" + filepath.Join(dir, "away.sock")
	ours := serveCRI(t, filepath.Join(dir, "ours.sock"), map[string]string{"criadapter": `{"version":"v1"}`})
	other := serveCRI(t, filepath.Join(dir, "other.sock"), nil)
	stale := "unix://" + filepath.Join(dir, "stale.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: pathOf(stale)})
	testutil.Must(t, err)
	listener.SetUnlinkOnClose(false)
	testutil.Must(t, listener.Close())
	for name, test := range map[string]struct {
		endpoints []string
		want      string
		fails     bool
	}{
		"the second":            {[]string{away, ours}, ours, false},
		"behind a stale socket": {[]string{stale, ours}, ours, false},
		"another server's":      {[]string{away, other}, away, true},
		"another at the first":  {[]string{other, ours}, other, false},
		"the error of a socket": {[]string{away, stale}, stale, true},
		"none":                  {[]string{away, away + "2"}, away, true},
	} {
		answer, err := find(t.Context(), test.endpoints, status.Ask)
		testutil.Assert(t, answer.Endpoint == test.want && (err != nil) == test.fails,
			"%s: %s, %v", name, answer.Endpoint, err)
	}
}

func TestUnits(t *testing.T) {
	for endpoint, want := range map[string]string{
		usualSocket: "criadapter", dropInSocket: "cri-docker", "unix:///var/run/cri-dockerd.sock": "cri-docker",
		"unix:///tmp/c/cri.sock": "criadapter",
	} {
		testutil.Equal(t, unitOf(endpoint), want, "%s", endpoint)
	}
}

// Whichever package is installed, the advice names a unit that may run.
func TestAdviceWithoutAServer(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "cri.sock")
	output, err := execute(t, nil, "status", "--container-runtime-endpoint=unix://"+socket)
	testutil.Assert(t, err != nil && strings.Contains(output, socket) &&
		strings.Contains(output, "or cri-docker with the package criadapter-cri-docker"), "%v\n%s", err, output)
}
