package adapter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// roleVar is the environment variable that makes the test binary stand in for criadapter, in one of the roles below.
const roleVar = "ADAPTER_TEST_ROLE"

const (
	roleServe    = "serve"    // answers, ends with status 0 on SIGTERM
	roleRefuse   = "refuse"   // prints a reason and exits at once
	roleStubborn = "stubborn" // answers, ignores SIGTERM
	roleDirty    = "dirty"    // answers, ends with status 3 on SIGTERM
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// play is the program that the tests run instead of criadapter.
func play(role string, flags []string) int {
	if role == roleRefuse {
		fmt.Println("refusing: the stars are wrong")
		return 1
	}
	var endpoint string
	for _, flag := range flags {
		if value, ok := strings.CutPrefix(flag, "--container-runtime-endpoint=unix://"); ok {
			endpoint = value
		}
	}
	os.Remove(endpoint) // a killed predecessor leaves its socket
	socket, err := net.Listen("unix", endpoint)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, fakeRuntime{})
	runtimeapi.RegisterImageServiceServer(server, fakeImages{})
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)
	go func() {
		<-terminate
		if role != roleStubborn {
			server.Stop()
		}
	}()
	if err := server.Serve(socket); err != nil {
		fmt.Println(err)
		return 1
	}
	if role == roleDirty {
		return 3
	}
	return 0
}

type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
}

func (fakeRuntime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1",
		RuntimeApiVersion: "v1"}, nil
}

type fakeImages struct {
	runtimeapi.UnimplementedImageServiceServer
}

func (fakeImages) ImageFsInfo(
	context.Context, *runtimeapi.ImageFsInfoRequest,
) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{}, nil
}

// playOptions returns options that run the test binary in a role, with a work directory of its own.
func playOptions(t *testing.T, role string) Options {
	t.Helper()
	self, err := os.Executable()
	testutil.Must(t, err)
	return Options{
		Env:     rigenv.Env{Criadapter: self, CNIBinDir: "/nowhere", WorkDir: t.TempDir()},
		Environ: []string{roleVar + "=" + role},
	}
}

func TestRestart(t *testing.T) {
	s := ForTest(t, playOptions(t, roleServe))
	first := s.PID()
	version := func() {
		t.Helper()
		answer, err := s.Runtime.Version(t.Context(), "v1")
		testutil.Require(t, err == nil && answer.GetRuntimeName() == "fake", "Version: %v, %v", answer, err)
	}
	version()
	err := s.Start(t.Context())
	testutil.Require(t, err != nil, "started twice at once")
	testutil.Must(t, s.Stop(t.Context()))
	testutil.Assert(t, s.PID() == 0, "PID %d after Stop", s.PID())
	testutil.Must(t, s.Start(t.Context()))
	testutil.Assert(t, s.PID() != first, "not restarted")
	version()
	s.Kill()
	err = s.ExitError()
	testutil.Assert(t, err != nil, "killed, and no exit error")
	testutil.Must(t, s.Start(t.Context()))
	version()
}

// Start returns at once if the program refuses to start, and its error has the output of the program.
func TestStartRefused(t *testing.T) {
	s := NewForTest(t, playOptions(t, roleRefuse))
	begin := time.Now()
	err := s.Start(t.Context())
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "the stars are wrong"), "Start: %v", err)
	took := time.Since(begin)
	testutil.Assert(t, took <= startTimeout/4, "took %v", took)
}

func TestStopKillsAtTheDeadline(t *testing.T) {
	s := ForTest(t, playOptions(t, roleStubborn))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := s.Stop(ctx)
	testutil.Assert(t, err != nil, "a program that ignores SIGTERM is not an error")
	testutil.Assert(t, s.PID() == 0, "still running")
}

func TestStopReportsExitStatus(t *testing.T) {
	s := ForTest(t, playOptions(t, roleDirty))
	err := s.Stop(t.Context())
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "exit status 3"), "Stop: %v", err)
}

// Each server of a rig takes its own network, and gives it back at the end.
func TestNetworksAreTakenAndReleased(t *testing.T) {
	opts := playOptions(t, roleServe)
	first, err := New(opts)
	testutil.Must(t, err)
	second := NewForTest(t, opts)
	testutil.Assert(t, first.Subnet != second.Subnet && first.Dir != second.Dir,
		"shared: %s %s, %s %s", first.Subnet, second.Subnet, first.Dir, second.Dir)
	testutil.Must(t, first.Close(t.Context()))
	_, err = os.Stat(first.Dir)
	testutil.Assert(t, errors.Is(err, os.ErrNotExist), "the directory after Close: %v", err)
	third := NewForTest(t, opts)
	testutil.Assert(t, third.Subnet == first.Subnet, "%s was not given back: %s", first.Subnet, third.Subnet)
}

func TestNewRefusesHalfARig(t *testing.T) {
	for name, env := range map[string]rigenv.Env{
		"no program": {CNIBinDir: "/nowhere", WorkDir: t.TempDir()},
		"no plugins": {Criadapter: "/bin/true", WorkDir: t.TempDir()},
	} {
		s, err := New(Options{Env: env})
		testutil.Assert(t, s == nil && err != nil, "%s: got %v, %v", name, s, err)
	}
}
