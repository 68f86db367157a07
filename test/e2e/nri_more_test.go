package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// launched is the plugin that TestNRILaunchedPlugin has the server start. It sets the variable LAUNCHED to its
// configuration.
type launched struct{ value string }

// Configure implements a plugin of package stub.
func (l *launched) Configure(_ context.Context, config, _, _ string) (stub.EventMask, error) {
	l.value = strings.TrimSpace(config)
	return 0, nil
}

// CreateContainer implements a plugin of package stub.
func (l *launched) CreateContainer(
	context.Context, *api.PodSandbox, *api.Container,
) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	a := &api.ContainerAdjustment{}
	a.AddEnv("LAUNCHED", l.value)
	return a, nil, nil
}

// TestNRILaunchedPlugin: the server starts the plugins of its directory with their configurations, and ends them. The
// plugin is this program.
func TestNRILaunchedPlugin(t *testing.T) {
	if os.Getenv(api.PluginSocketEnvVar) != "" {
		s, err := stub.New(&launched{})
		testutil.Must(t, err)
		testutil.Must(t, s.Run(t.Context()))
		return
	}
	n := newNRINode(t)
	self, err := filepath.Abs(os.Args[0])
	testutil.Must(t, err)
	plugin := filepath.Join(n.plugins, "plugins", "10-launched")
	testutil.WriteFile(t, plugin, fmt.Sprintf("#!/bin/sh\necho $$ >%s/pid\nexec %s -test.run '^%s$'\n", n.plugins, self,
		t.Name()))
	testutil.Must(t, os.Chmod(plugin, 0o755))
	testutil.WriteFile(t, filepath.Join(n.plugins, "conf.d", "launched.conf"), "from its configuration\n")
	testutil.Must(t, n.server.Stop(t.Context()))
	testutil.Must(t, n.server.Start(t.Context()))
	n.pod = runSandbox(t, n.server, n.config)
	id, _ := n.run(noted("main", nil))
	same(t, "its variable", n.sh(id, "echo $LAUNCHED"), "from its configuration")
	pid := testutil.ReadFile(t, filepath.Join(n.plugins, "pid"))
	testutil.Must(t, n.server.Stop(t.Context()))
	testutil.Until(t, "the plugin has ended", func() bool {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		return err != nil || strings.Contains(string(state), ") Z ")
	})
	testutil.Must(t, n.server.Start(t.Context()))
}

// TestNRIBadPluginDirectory: a server whose plugins cannot be found makes no pods, and says why.
func TestNRIBadPluginDirectory(t *testing.T) {
	n := newNRINode(t)
	testutil.WriteFile(t, filepath.Join(n.plugins, "plugins", "no-index"), "")
	testutil.Must(t, os.Chmod(filepath.Join(n.plugins, "plugins", "no-index"), 0o755))
	testutil.Must(t, n.server.Stop(t.Context()))
	testutil.Must(t, n.server.Start(t.Context()))
	_, err := n.server.Runtime.RunPodSandbox(t.Context(), n.config, "")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "NRI cannot start") &&
		strings.Contains(err.Error(), `invalid plugin index "no"`), "got %v", err)
}

// TestNRIRestart: after a restart of the server, a plugin gets containers with their adjustments. An update of the
// memory limit keeps the adjusted CPU shares.
func TestNRIRestart(t *testing.T) {
	n := newNRINode(t)
	startPlugin(t, n.socket, "10", "adjuster", adjusting(func(_ *api.Container, a *api.ContainerAdjustment) {
		a.AddEnv("ADJUSTED", "yes")
		a.SetLinuxCPUShares(400)
	}))
	n.pod = runSandbox(t, n.server, n.config)
	id, pid := n.run(noted("main", nil))
	testutil.Must(t, n.server.Stop(t.Context()))
	testutil.Must(t, n.server.Start(t.Context()))
	p := startPlugin(t, n.socket, "10", "follower", &nriPlugin{})
	testutil.Must(t, n.server.Runtime.UpdateContainerResources(t.Context(), id, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 << 20}}))
	main := p.container("main")
	testutil.Assert(t, strings.Contains(strings.Join(main.GetEnv(), " "), "ADJUSTED=yes"), "env %v", main.GetEnv())
	n.wantShares(id, pid, 400)
	same(t, "a command", n.sh(id, "echo $ADJUSTED"), "yes")
}

// TestNRIBehindOurBack: plugins hear of a container that another client of the engine ends. If that client removes the
// container, plugins hear of the removal when the kubelet removes it, too.
func TestNRIBehindOurBack(t *testing.T) {
	n := newNRINode(t)
	p := startPlugin(t, n.socket, "10", "follower", &nriPlugin{})
	n.pod = runSandbox(t, n.server, n.config)
	id, _ := n.run(noted("main", nil))
	for _, step := range []struct{ command, event string }{{"kill", "StopContainer"}, {"rm", "RemoveContainer"}} {
		engine.Docker(t, rigenv.Require(t).DockerHost, step.command, id)
		if step.command == "rm" {
			testutil.Must(t, n.server.Runtime.RemoveContainer(t.Context(), id))
		}
		testutil.Until(t, step.event, func() bool { return p.saw(step.event) })
	}
}

// TestNRIWithoutOCIRuntime: without the OCI runtime, plugins change limits, and anything else is refused.
func TestNRIWithoutOCIRuntime(t *testing.T) {
	n := newNRINode(t, "--oci-runtime=off")
	startPlugin(t, n.socket, "10", "adjuster", adjusting(func(c *api.Container, a *api.ContainerAdjustment) {
		a.SetLinuxCPUShares(400)
		if c.GetName() == "refused" {
			a.AddEnv("A", "1")
		}
	}))
	n.pod = runSandbox(t, n.server, n.config)
	id, pid := n.run(noted("main", nil))
	n.wantShares(id, pid, 400)
	config := noted("refused", nil)
	_, err := n.create(config)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "needs the OCI runtime criadapter-oci"), "got %v",
		err)
}

// TestNRICrictl: crictl shows what a plugin adjusts, and prints a plugin's refusal.
func TestNRICrictl(t *testing.T) {
	dir := nriDir(t)
	c := newCrictl(t, adapter.NRIFlags(dir)...)
	startPlugin(t, filepath.Join(dir, "nri.sock"), "10", "adjuster", &nriPlugin{adjust: func(_ *api.PodSandbox,
		container *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
		a := &api.ContainerAdjustment{}
		if container.GetName() == "refused" {
			return nil, nil, fmt.Errorf("no container of that name")
		}
		a.AddEnv("ADJUSTED", "yes")
		a.SetLinuxCPUShares(400)
		return a, nil, nil
	}})
	p := c.runPod()
	id := c.container(p, "main", "test/busybox:latest", "sleep", "1000000")
	same(t, "env", strings.TrimSpace(c.run("exec", id, "sh", "-c", "echo $ADJUSTED")), "yes")
	inspected := c.run("inspect", id)
	testutil.Assert(t, strings.Contains(inspected, `"cpuShares": "400"`), "inspect:\n%s", inspected)
	r := c.try("create", p.id, c.containerConfig("refused", "test/busybox:latest", "sleep", "1"), p.config)
	testutil.Assert(t, r.code != 0 && strings.Contains(r.stderr, "an NRI plugin refuses it: ") &&
		strings.Contains(r.stderr, "no container of that name"), "create: %s", r.stderr)
}
