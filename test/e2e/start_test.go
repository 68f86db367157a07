package e2e

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// A second server must take neither the socket nor the state of the first server.
func TestSecondServerRefusesToStart(t *testing.T) {
	env := rigenv.Require(t)
	first := adapter.ForTest(t, adapter.Options{Env: env})
	for name, test := range map[string]struct{ flag, want string }{
		"same socket": {"--container-runtime-endpoint=" + first.Endpoint, "another server answers on"},
		"same state":  {"--root-directory=" + first.RootDir, "another criadapter uses"},
	} {
		t.Run(name, func(t *testing.T) {
			second := adapter.NewForTest(t, adapter.Options{Env: env, Flags: []string{test.flag}})
			testutil.Must(t, second.Launch())
			testutil.Receive(t, second.Ended(), "the second server runs")
			testutil.Assert(t, second.ExitError() != nil, "the second server ended with exit status 0")
			log := second.LogTail()
			testutil.Assert(t, strings.Contains(log, test.want), "the second server says %q, want %q", log, test.want)
			_, err := first.Runtime.Version(t.Context(), "")
			testutil.Assert(t, err == nil, "the first server does not answer any more: %v", err)
		})
	}
}

func TestSocketIsPrivateAndAStaleOneIsReplaced(t *testing.T) {
	server := adapter.ForTest(t, adapter.Options{Env: rigenv.Require(t)})
	path := strings.TrimPrefix(server.Endpoint, "unix://")
	mode := func() fs.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		testutil.Must(t, err)
		return info.Mode()
	}
	got := mode()
	testutil.Assert(t, got == fs.ModeSocket|0o600, "mode %s, want a socket with 0600", got)
	server.Kill()
	got = mode()
	testutil.Require(t, got&fs.ModeSocket != 0, "the kill left no stale socket, so this test shows nothing")
	testutil.Must(t, server.Start(t.Context()))
	testutil.Must(t, server.Stop(t.Context()))
	_, err := os.Stat(path)
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "an ordered end leaves the socket: %v", err)
}

func TestPlainFileInTheSocketsPlaceStays(t *testing.T) {
	server := adapter.NewForTest(t, adapter.Options{Env: rigenv.Require(t)})
	path := strings.TrimPrefix(server.Endpoint, "unix://")
	testutil.Must(t, os.WriteFile(path, []byte("precious"), 0o600))
	testutil.Must(t, server.Launch())
	<-server.Ended()
	content, err := os.ReadFile(path)
	testutil.Assert(t, err == nil && string(content) == "precious", "the file is now %q, %v", content, err)
	log := server.LogTail()
	testutil.Assert(t, strings.Contains(log, "is not a socket"), "the server says %q", log)
}

// The engine may come later than criadapter, go away, and come back.
func TestEngineComesGoesAndComesBack(t *testing.T) {
	env := rigenv.Require(t)
	// The test's client can connect only while the server sees the engine. So server and engine run once before.
	dockerd := engine.ForTest(t, engine.Options{Env: env})
	e := newEndpoint(t)
	server := adapter.ForTest(t,
		adapter.Options{Env: env, Flags: []string{"--docker-endpoint=" + dockerd.Host(), e.flag()}})
	testutil.Must(t, errors.Join(server.Stop(t.Context()), dockerd.Terminate(t.Context()), server.Launch()))
	testutil.Eventually(t, func() error {
		_, err := server.Runtime.Version(t.Context(), "")
		return err
	})

	wantAway(t, server)
	_, err := server.Runtime.ListPodSandbox(t.Context(), nil)
	wantCode(t, "ListPodSandbox before the engine was ever seen", err, codes.Unavailable)

	testutil.Must(t, dockerd.Start(t.Context()))
	testutil.Eventually(t, func() error { return ready(t, server) })
	e.wantReady(http.StatusOK)
	id, err := server.Runtime.RunPodSandbox(t.Context(), sandboxConfig("comes-back"), "")
	testutil.Must(t, err)

	dockerd.Kill()
	testutil.Eventually(t, func() error {
		if ready(t, server) == nil {
			return errors.New("RuntimeReady is still true")
		}
		return nil
	})
	wantAway(t, server)
	e.wantReady(http.StatusServiceUnavailable)
	if pods, err := server.Runtime.ListPodSandbox(t.Context(), nil); err != nil || len(pods) != 1 {
		t.Errorf("with the engine away the list has %d pods, %v; want the one that was there", len(pods), err)
	}
	_, err = server.Runtime.RunPodSandbox(t.Context(), sandboxConfig("too-soon"), "")
	wantCode(t, "RunPodSandbox with the engine away", err, codes.Unavailable)

	testutil.Must(t, dockerd.Start(t.Context()))
	testutil.Eventually(t, func() error { return ready(t, server) })
	e.wantReady(http.StatusOK)
	removeSandbox(t, server, id)
}

func TestNetworkReadyFollowsTheConfiguration(t *testing.T) {
	server := adapter.ForTest(t, adapter.Options{Env: rigenv.Require(t)})
	testutil.Eventually(t, func() error { return ready(t, server) })
	away := filepath.Join(server.Dir, "away.conflist")
	testutil.Must(t, os.Rename(server.CNIConfig(), away))
	testutil.Eventually(t, func() error {
		condition := condition(t, server, runtimeapi.NetworkReady)
		if condition.GetStatus() || !strings.Contains(condition.GetMessage(), server.CNIConfDir) {
			return errors.New("NetworkReady: " + condition.String())
		}
		return nil
	})
	_, err := server.Runtime.RunPodSandbox(t.Context(), sandboxConfig("no-network"), "")
	wantCode(t, "RunPodSandbox without a network", err, codes.Unavailable)
	pods, err := server.Runtime.ListPodSandbox(t.Context(), nil)
	testutil.Assert(t, err == nil && len(pods) == 0, "left behind: %v, %v", pods, err)
	testutil.Must(t, os.Rename(away, server.CNIConfig()))
	testutil.Eventually(t, func() error { return ready(t, server) })
}

// wantAway checks that RuntimeReady is false, with a reason and a message.
func wantAway(t *testing.T, server *adapter.Server) {
	t.Helper()
	got := condition(t, server, runtimeapi.RuntimeReady)
	testutil.Assert(t, !got.GetStatus() && got.GetReason() != "" && got.GetMessage() != "",
		"with the engine away RuntimeReady is %v, want false with a reason", got)
}

func ready(t *testing.T, server *adapter.Server) error {
	t.Helper()
	for _, kind := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		if got := condition(t, server, kind); !got.GetStatus() {
			return errors.New(got.String())
		}
	}
	return nil
}

func condition(t *testing.T, server *adapter.Server, kind string) *runtimeapi.RuntimeCondition {
	t.Helper()
	answer, err := server.Runtime.Status(t.Context(), false)
	testutil.Must(t, err)
	for _, c := range answer.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	t.Fatalf("Status has no condition %s", kind)
	return nil
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	got := status.Code(err)
	testutil.Assert(t, got == want, "%s: code %s (%v), want %s", what, got, err, want)
}

// removeSandbox stops and removes a pod, also when the test's own context is over.
func removeSandbox(t *testing.T, server *adapter.Server, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	testutil.Check(t, server.Runtime.StopPodSandbox(ctx, id))
	testutil.Check(t, server.Runtime.RemovePodSandbox(ctx, id))
}

// sandboxConfig is the configuration of a pod whose name nothing else on the engine has.
func sandboxConfig(base string) *runtimeapi.PodSandboxConfig {
	name := rigenv.Unique(base)
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "e2e", Uid: "uid-" + name},
		Hostname: "e2e",
		Linux:    &runtimeapi.LinuxPodSandboxConfig{},
	}
}
