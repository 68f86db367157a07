package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// nriNode is a node with NRI.
type nriNode struct {
	*fieldsNode
	socket string
	// plugins has the directories of plugins and of their configurations.
	plugins string
	// cgroup is a path for a container's cgroup, and plain a process of a container without adjustments.
	cgroup string
	plain  int
}

func nriDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(rigenv.Require(t).WorkDir, "nri")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// newNRINode starts a server with NRI.
func newNRINode(t *testing.T, flags ...string) *nriNode {
	t.Helper()
	dir := nriDir(t)
	n := &nriNode{socket: filepath.Join(dir, "nri.sock"), plugins: dir}
	n.fieldsNode = newFieldsNode(t, append(adapter.NRIFlags(dir), flags...)...)
	return n
}

// life has the requests that a plugin gets about one pod, in their order.
const life = `RunPodSandbox POD
CreateContainer main
PostCreateContainer main
StartContainer main
PostStartContainer main
UpdateContainer main
PostUpdateContainer main
UpdatePodSandbox 1048576 8388608 POD
PostUpdatePodSandbox POD
StopContainer main
StopPodSandbox POD
RemoveContainer main
RemovePodSandbox POD`

// TestNRIEvents: plugins get each event of a pod's life once and in order. A plugin that joins later gets the pods and
// containers that exist.
func TestNRIEvents(t *testing.T) {
	n := newNRINode(t)
	first := startPlugin(t, n.socket, "10", "first", &nriPlugin{})
	n.pod = runSandbox(t, n.server, n.config)
	id, pid := n.run(noted("main", nil))
	second := startPlugin(t, n.socket, "20", "second", &nriPlugin{})
	same(t, "what a late plugin sees", second.seen(),
		"Configure criadapter\nSynchronize 1 pods, containers [main]")
	testutil.Must(t, n.server.Runtime.UpdateContainerResources(t.Context(), id, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{CpuShares: 300}}))
	_, err := n.server.Runtime.UpdatePodSandboxResources(t.Context(), &runtimeapi.UpdatePodSandboxResourcesRequest{
		PodSandboxId: n.pod, Overhead: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 1 << 20},
		Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 8 << 20}})
	testutil.Must(t, err)
	testutil.Must(t, n.server.Runtime.StopPodSandbox(t.Context(), n.pod))
	testutil.Until(t, "the end of the container is known", func() bool { return first.saw("StopContainer") })
	testutil.Must(t, n.server.Runtime.RemovePodSandbox(t.Context(), n.pod))
	got := strings.TrimPrefix(first.seen(), "Configure criadapter\nSynchronize 0 pods, containers []\n")
	got = ordered(strings.ReplaceAll(got, n.config.Metadata.Name, "POD"))
	testutil.Assert(t, got == life, "got\n%s\nwant\n%s", got, life)
	main := first.container("main")
	testutil.Assert(t, main.GetId() == id && main.GetPodSandboxId() == n.pod, "the container is %v", main)
	testutil.Equal(t, strings.Join(main.GetArgs(), " "), "sleep 1000000", "args")
	started := first.pods["PostStartContainer"]
	testutil.Assert(t, started.GetUid() == n.config.Metadata.Uid && len(started.GetIps()) == 2, "the pod is %v",
		started)
	testutil.Assert(t, pid > 0, "no process")
}

// ordered puts the stop of a container before the stop of its pod, because a plugin may hear of them in either order.
func ordered(text string) string {
	return strings.Replace(text, "StopPodSandbox POD\nStopContainer main", "StopContainer main\nStopPodSandbox POD", 1)
}

// TestNRIRefusals: an error of a plugin fails the request. A failed request leaves nothing behind.
func TestNRIRefusals(t *testing.T) {
	n := newNRINode(t)
	refused := ""
	startPlugin(t, n.socket, "10", "refuser", &nriPlugin{refuse: func(request string) error {
		if request == refused {
			return errors.New("not here")
		}
		return nil
	}})
	refused = "RunPodSandbox"
	_, err := n.server.Runtime.RunPodSandbox(t.Context(), n.config, "")
	wantRefusal(t, "RunPodSandbox", err)
	pods, err := n.server.Runtime.ListPodSandbox(t.Context(), nil)
	testutil.Assert(t, err == nil && len(pods) == 0, "pods: %v, %v", pods, err)
	refused = ""
	n.pod = runSandbox(t, n.server, n.config)
	config := noted("main", nil)
	refused = "CreateContainer"
	_, err = n.create(config)
	wantRefusal(t, "CreateContainer", err)
	containers, err := n.server.Runtime.ListContainers(t.Context(), nil)
	testutil.Assert(t, err == nil && len(containers) == 0, "containers: %v, %v", containers, err)
	refused = "StartContainer"
	id, err := n.create(config)
	testutil.Must(t, err)
	wantRefusal(t, "StartContainer", n.server.Runtime.StartContainer(t.Context(), id))
	refused = ""
	testutil.Must(t, n.server.Runtime.StartContainer(t.Context(), id))
	refused = "UpdateContainer"
	wantRefusal(t, "UpdateContainerResources", n.server.Runtime.UpdateContainerResources(t.Context(), id,
		&runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 300}}))
}

func wantRefusal(t *testing.T, call string, err error) {
	t.Helper()
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "an NRI plugin refuses it") &&
		strings.Contains(err.Error(), "not here"), "%s: %v", call, err)
}

// TestNRIBrokenPlugins: a plugin that hangs or dies is dropped, and the node goes on without it.
func TestNRIBrokenPlugins(t *testing.T) {
	n := newNRINode(t)
	hanging := startPlugin(t, n.socket, "10", "hanging", &nriPlugin{refuse: func(request string) error {
		if request == "RunPodSandbox" {
			time.Sleep(5 * time.Second)
		}
		return nil
	}})
	other := startPlugin(t, n.socket, "20", "other", &nriPlugin{})
	n.pod = runSandbox(t, n.server, n.config)
	testutil.Until(t, "the plugin that hangs is dropped", func() bool {
		hanging.mu.Lock()
		defer hanging.mu.Unlock()
		return hanging.lost
	})
	dying := startPlugin(t, n.socket, "30", "dying", &nriPlugin{})
	dying.stub.Stop()
	n.run(noted("main", nil))
	testutil.Assert(t, other.saw("PostStartContainer"), "the other plugin saw\n%s", other.seen())
	testutil.Assert(t, !hanging.saw("CreateContainer"), "the plugin that hung saw\n%s", hanging.seen())
}

// TestNRIConflict: if two plugins set the same variable, the create fails, and the error names both plugins.
func TestNRIConflict(t *testing.T) {
	n := newNRINode(t)
	set := func(value string) *nriPlugin {
		return adjusting(func(_ *api.Container, a *api.ContainerAdjustment) { a.AddEnv("SAME", value) })
	}
	startPlugin(t, n.socket, "10", "one", set("1"))
	startPlugin(t, n.socket, "20", "two", set("2"))
	n.pod = runSandbox(t, n.server, n.config)
	config := noted("main", nil)
	_, err := n.create(config)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "10-one") && strings.Contains(err.Error(), "20-two"),
		"got %v", err)
}

// validator is a plugin that checks the adjustments of other plugins.
type validator struct {
	*nriPlugin
}

func (validator) ValidateContainerAdjustment(_ context.Context, r *api.ValidateContainerAdjustmentRequest) error {
	if len(r.GetAdjust().GetEnv()) > 0 {
		return errors.New("no variables here")
	}
	return nil
}

// TestNRIValidator: a validator refuses what another plugin adjusts.
func TestNRIValidator(t *testing.T) {
	n := newNRINode(t)
	startPlugin(t, n.socket, "10", "setter", adjusting(func(c *api.Container, a *api.ContainerAdjustment) {
		if c.GetName() == "refused" {
			a.AddEnv("A", "1")
		}
	}))
	plugin := validator{&nriPlugin{t: t, containers: map[string]*api.Container{}, pods: map[string]*api.PodSandbox{}}}
	s, err := stub.New(plugin, stub.WithPluginName("validator"), stub.WithPluginIdx("90"),
		stub.WithSocketPath(n.socket))
	testutil.Must(t, err)
	testutil.Must(t, s.Start(t.Context()))
	t.Cleanup(s.Stop)
	testutil.Until(t, "the validator is synchronized", func() bool { return plugin.saw("Synchronize") })
	n.pod = runSandbox(t, n.server, n.config)
	n.run(noted("allowed", nil))
	config := noted("refused", nil)
	_, err = n.create(config)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "no variables here"), "got %v", err)
}

// TestNRIUpdates: plugins change limits of the container that a request updates, of other containers, and without a
// request.
func TestNRIUpdates(t *testing.T) {
	n := newNRINode(t)
	var first string
	change := func(id string, shares uint64) *api.ContainerUpdate {
		u := &api.ContainerUpdate{ContainerId: id}
		u.SetLinuxCPUShares(shares)
		return u
	}
	p := startPlugin(t, n.socket, "10", "balancer", &nriPlugin{
		adjust: func(_ *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
			if c.GetName() == "first" {
				return nil, nil, nil
			}
			return nil, []*api.ContainerUpdate{change(first, 512)}, nil
		},
		update: func(c *api.Container, _ *api.LinuxResources) ([]*api.ContainerUpdate, error) {
			return []*api.ContainerUpdate{change(c.GetId(), 700)}, nil
		},
	})
	n.pod = runSandbox(t, n.server, n.config)
	first, pid := n.run(noted("first", nil))
	_, _ = n.run(noted("second", nil))
	n.wantShares(first, pid, 512)
	testutil.Must(t, n.server.Runtime.UpdateContainerResources(t.Context(), first, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{CpuShares: 300}}))
	n.wantShares(first, pid, 700)
	failed, err := p.stub.UpdateContainers([]*api.ContainerUpdate{change(first, 256)})
	testutil.Assert(t, err == nil && len(failed) == 0, "failed: %v, %v", failed, err)
	n.wantShares(first, pid, 256)
	failed, err = p.stub.UpdateContainers([]*api.ContainerUpdate{change(strings.Repeat("0", 64), 256)})
	testutil.Assert(t, err != nil || len(failed) == 1, "an unknown container: %v, %v", failed, err)
	pids := &api.ContainerUpdate{ContainerId: first}
	pids.SetLinuxPidLimits(77)
	_, err = p.stub.UpdateContainers([]*api.ContainerUpdate{pids})
	testutil.Must(t, err)
	if got, ok := n.cgroupFile(pid, "", "pids", "pids.max", "pids.max"); ok {
		same(t, "pids", got, "77")
	}
}

// wantShares wants CPU shares in the status and in the kernel.
func (n *nriNode) wantShares(id string, pid int, want int64) {
	n.Helper()
	status, err := n.server.Runtime.ContainerStatus(n.Context(), id, false)
	testutil.Must(n, err)
	testutil.Equal(n, status.GetStatus().GetResources().GetLinux().GetCpuShares(), want, "shares in the status")
	if got, ok := n.cgroupFile(pid, "", "cpu", "cpu.shares", "cpu.none"); ok {
		same(n.T, "shares in the kernel", got, fmt.Sprint(want))
	}
}
