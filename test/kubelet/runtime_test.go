package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// runtimeVar names the runtime under test: criadapter, which is the default, or containerd. `make e2e` sets it.
const runtimeVar = "E2E_RUNTIME"

// runtime is the CRI server under test, with a directory of its own. It is closed when the test ends.
type runtime interface {
	// Name is what the server calls itself: container ids in statuses begin with it.
	Name() string
	// Endpoint is the CRI socket, unix:///…. Directory holds everything that belongs to the server and the test.
	Endpoint() string
	Directory() string
	// Start starts the server, also after Stop or Kill. Stop ends it in order, and Kill crashes it. Pods live on.
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
	Kill()
	Running() bool
	// NetworkConfig is the path of its one CNI configuration.
	NetworkConfig() string
	// KillContainer kills a container or sandbox with the runtime's own means, whether the server runs or not. For a
	// sandbox without a container it fails with errdefs.ErrNotFound.
	KillContainer(ctx context.Context, id string) error
}

// criadapterOnly skips a test on other runtimes; differences.yaml says why.
func criadapterOnly(t *testing.T) {
	t.Helper()
	if name := os.Getenv(runtimeVar); name != "" && name != "criadapter" {
		t.Skip("see differences.yaml")
	}
}

// startRuntime starts the runtime under test.
func startRuntime(t testing.TB, env rigenv.Env) runtime {
	t.Helper()
	var under runtime
	switch name := os.Getenv(runtimeVar); name {
	case "", "criadapter":
		under = criadapter{adapter.NewForTest(t, adapter.Options{Env: env}), env.DockerHost}
	case "containerd":
		under = newContainerd(t, env)
	default:
		t.Fatalf("%s=%s: want criadapter or containerd", runtimeVar, name)
	}
	testutil.Must(t, under.Start(t.Context()))
	return under
}

// criadapter is this tree's server, on the rig's engine.
type criadapter struct {
	*adapter.Server
	engine string
}

func (c criadapter) Name() string      { return "docker" }
func (c criadapter) Endpoint() string  { return c.Server.Endpoint }
func (c criadapter) Directory() string { return c.Dir }
func (c criadapter) Running() bool     { return c.PID() != 0 }

func (c criadapter) NetworkConfig() string { return c.CNIConfig() }

// KillContainer uses the docker command.
func (c criadapter) KillContainer(ctx context.Context, id string) error {
	output, err := exec.CommandContext(ctx, "docker", "--host", c.engine, "kill", id).CombinedOutput()
	if bytes.Contains(output, []byte("No such container")) {
		return fmt.Errorf("docker kill %s: %w: %w", id, err, errdefs.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("docker kill %s: %w\n%s", id, err, output)
	}
	return nil
}

// containerd is Debian's containerd, with its CRI plugin.
type containerd struct{ *peers.Containerd }

// networks numbers the pod networks of this process's containerds.
var networks atomic.Int32

func newContainerd(t testing.TB, env rigenv.Env) containerd {
	t.Helper()
	dir, err := os.MkdirTemp(env.WorkDir, "ctd")
	testutil.Must(t, err)
	// Users inside of containers reach mounted files below it.
	testutil.Must(t, os.Chmod(dir, 0o755))
	const most = 63 // the largest number of a peers.PodNetwork; earlier containerds have ended
	c, err := peers.NewContainerd(env, dir, int(networks.Add(1)-1)%most+1)
	testutil.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of containerd's log:\n%s", c.LogTail())
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience) // the test's own context has ended
		defer cancel()
		testutil.Check(t, errors.Join(c.Close(ctx), os.RemoveAll(dir)))
	})
	return containerd{c}
}

func (c containerd) Name() string      { return "containerd" }
func (c containerd) Directory() string { return c.Dir }

func (c containerd) NetworkConfig() string { return filepath.Join(c.Dir, "net.d", "10-peer.conflist") }

// KillContainer kills the process, because ctr needs containerd.
func (c containerd) KillContainer(_ context.Context, id string) error {
	return c.Containerd.KillContainer(id)
}
