package sandbox

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRunMakesAReadyPod(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.run("web")
		pod := n.pod(id)
		testutil.Assert(n, pod.Meta.Name == sandboxName("web") && proto.Equal(pod.Meta.Config, podConfig("web")) &&
			!pod.Meta.HostNetwork, "the pod is %+v", pod.Meta)
		want := []string{"10.88.0.1", "fd00::1"}
		testutil.Assert(n, slices.Equal(pod.Status.IPs, want), "the addresses are %v, want %v", pod.Status.IPs, want)
		if n.mode == withKernel {
			if pin := netns.Open(pod.Status.NetnsPath); !pin.Alive() || pod.Status.PID != 0 {
				n.Errorf("the pod has the process %d, and its pin is alive: %v", pod.Status.PID, pin.Alive())
			}
		} else if same, err := netns.Open(pod.Status.NetnsPath).SameAs(pod.Status.PID); err != nil || !same {
			n.Errorf("the pin %s is not the sandbox's namespace: %v", pod.Status.NetnsPath, err)
		}
		record, err := n.store.Load(t.Context(), id)
		n.must(err)
		testutil.Assert(n, record.Phase == checkpoint.PhaseReady && record.NetnsPath == pod.Status.NetnsPath &&
			record.Network.Config == "net" && record.Name == "web" && record.UID == "uid-web" &&
			!record.CreatedAt.IsZero(), "the checkpoint is %+v", record)
		joined := n.network.joined[id]
		testutil.Assert(n, joined.Name == "web" && joined.Namespace == "default" && joined.UID == "uid-web" &&
			joined.Annotations["note"] == "of web" && slices.Equal(joined.DNS.Servers, []string{"10.0.0.10"}) &&
			slices.Equal(joined.DNS.Searches, []string{"default.svc"}) &&
			slices.Equal(joined.PortMappings, []cni.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}),
			"CNI ADD got %+v", joined)
		hosts, err := os.ReadFile(n.files.Of(id).Hosts)
		testutil.Assert(n, err == nil && strings.HasSuffix(string(hosts), "10.88.0.1\tweb\nfd00::1\tweb\n"),
			"the hosts file ends in %q (%v)", hosts, err)
		n.removeLast(id)
	})
}

func TestRunOnTheHostsNetwork(t *testing.T) {
	onEachKind(t, func(n *node) {
		id := n.runConfig(onHostNetwork(podConfig("web")))
		pod := n.pod(id)
		testutil.Assert(n, pod.Meta.HostNetwork && pod.Status.NetnsPath == "" && len(pod.Status.IPs) == 0 &&
			n.network.given == 0, "the pod is %+v, %d addresses were given", pod, n.network.given)
		for path, node := range map[string]string{n.files.Of(id).Hosts: "/etc/hosts"} {
			got, err := os.ReadFile(path)
			n.must(err)
			want, err := os.ReadFile(node)
			n.must(err)
			testutil.Assert(n, string(got) == string(want), "the pod's file is %q, the node's %q", got, want)
		}
		n.must(n.Stop(n.Context(), id))
		n.wantState(id, notReady)
		n.removeLast(id)
		testutil.Assert(n, n.network.dels == 0, "CNI DEL was called %d times", n.network.dels)
	})
}

func TestRunOnTheEnginesBridge(t *testing.T) {
	onNode(t, withBridge, func(n *node) {
		id := n.run("web")
		pod := n.pod(id)
		testutil.Assert(n, slices.Equal(pod.Status.IPs, []string{"172.17.0.9"}) && pod.Status.NetnsPath == "",
			"the pod is %+v", pod.Status)
		n.end()
		n.start(withBridge)
		n.must(n.Recover(n.Context()))
		n.wantState(id, ready)
		got := n.pod(id).Status.IPs
		testutil.Assert(n, slices.Equal(got, []string{"172.17.0.9"}), "after a restart the addresses are %v", got)
		n.removeLast(id)
	})
}

// Only the inspect after the start shows that the sandbox has ended.
func TestSandboxThatEndsAtOnceOnTheHostsNetwork(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.engine.started = func(id string) { _ = n.engine.Exit(id, 1) }
		_, err := n.Run(n.Context(), onHostNetwork(podConfig("web")), "")
		testutil.Assert(n, err != nil && strings.Contains(err.Error(), "ended right after its start"),
			"Run returned %v", err)
		n.wantNothing()
	})
}

// The engine may have no bridge (dockerd --bridge=none).
func TestPodWithoutAnAddressIsNeverReady(t *testing.T) {
	onNode(t, withBridge, func(n *node) {
		n.engine.bridge = false
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errdefs.IsFailedPrecondition(err), "Run returned %v, want FailedPrecondition", err)
		n.wantNothing()
	})
}

func TestBadRequestsTouchNothing(t *testing.T) {
	with := func(change func(*runtimeapi.PodSandboxConfig)) *runtimeapi.PodSandboxConfig {
		config := podConfig("web")
		change(config)
		return config
	}
	type test struct {
		config  *runtimeapi.PodSandboxConfig
		handler string
		field   string
	}
	onNodes(t, withCNI, map[string]test{
		"no configuration": {nil, "", "config"},
		"no metadata": {with(func(c *runtimeapi.PodSandboxConfig) { c.Metadata = nil }), "",
			"config.metadata"},
		"no name": {with(func(c *runtimeapi.PodSandboxConfig) { c.Metadata.Name = "" }), "",
			"config.metadata.name"},
		"a bad host name": {with(func(c *runtimeapi.PodSandboxConfig) { c.Hostname = "-x-" }), "",
			"config.hostname"},
		"a bad DNS server": {with(func(c *runtimeapi.PodSandboxConfig) { c.DnsConfig.Servers = []string{"x\ny"} }),
			"", "config.dns_config"},
		"a bad port": {with(func(c *runtimeapi.PodSandboxConfig) { c.PortMappings[0].ContainerPort = 99999 }),
			"", "config.port_mappings"},
		"an unknown handler": {podConfig("web"), "kata", "runtime_handler"},
		"a relative log path": {with(func(c *runtimeapi.PodSandboxConfig) { c.LogDirectory = "logs" }), "",
			"config.log_directory"},
		"a sysctl of the node": {
			with(func(c *runtimeapi.PodSandboxConfig) { c.Linux.Sysctls = map[string]string{"vm.swappiness": "1"} }),
			"", "config.linux.sysctls"},
	}, func(n *node, tt test) {
		_, err := n.Run(n.Context(), tt.config, tt.handler)
		testutil.Assert(n, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), tt.field),
			"Run returned %v, want InvalidArgument with %s", err, tt.field)
		testutil.Assert(n, n.engine.Calls("CreateContainer") == 0, "a container was created")
		n.wantNothing()
	})
}

func injected(call string, fault dockertest.Fault) func(*node) func() {
	return func(n *node) func() { return n.engine.Inject(call, fault) }
}

// duringAdd makes CNI ADD call hook at its beginning, until repair.
func (n *node) duringAdd(hook func(context.Context, cni.Pod) error) (repair func()) {
	n.network.setAdd(hook)
	return func() { n.network.failAdd(nil) }
}

// steps returns a function for each failure of a step of a set-up. The step fails until repair is called.
func steps() map[string]func(*node) (repair func()) {
	fault := dockertest.Fault{Err: errTest}
	after := dockertest.Fault{Err: errTest, AfterEffect: true}
	return map[string]func(*node) (repair func()){
		"the engine's features": injected("Features", fault),
		"the sandbox image": func(n *node) func() {
			n.images.err = errTest
			return func() { n.images.err = nil }
		},
		"create":                    injected("CreateContainer", fault),
		"save the intent":           func(n *node) func() { return n.fillStore() },
		"write the files":           func(n *node) func() { return n.hideBelowFullDisk(n.files.dir) },
		"start":                     injected("StartContainer", fault),
		"start, the answer is lost": injected("StartContainer", after),
		"the process ends at once": func(n *node) func() {
			n.engine.started = func(id string) { _ = n.engine.Exit(id, 1) }
			return func() { n.engine.started = nil }
		},
		"inspect":           injected("InspectContainer", fault),
		"pin the namespace": func(n *node) func() { return n.hideBelowFullDisk(n.netnsDir()) },
		"CNI ADD":           func(n *node) func() { return n.duringAdd(failing(errTest)) },
		"the process ends during CNI ADD": func(n *node) func() {
			return n.duringAdd(func(_ context.Context, pod cni.Pod) error {
				_ = n.engine.Exit(pod.ID, 1)
				return errTest
			})
		},
		"the sandbox is removed during CNI ADD": func(n *node) func() {
			return n.duringAdd(func(ctx context.Context, pod cni.Pod) error {
				return errors.Join(errTest, n.engine.RemoveContainer(ctx, pod.ID))
			})
		},
		"the time is over": func(n *node) func() { return n.duringAdd(waitForEnd) },
		"write the addresses": func(n *node) func() {
			return n.duringAdd(func(_ context.Context, pod cni.Pod) error {
				hosts := n.files.Of(pod.ID).Hosts
				return errors.Join(os.Remove(hosts), os.Mkdir(hosts, 0o700))
			})
		},
		"save ready": func(n *node) func() {
			empty := func() {}
			repair := n.duringAdd(func(context.Context, cni.Pod) error {
				empty = n.fillStore()
				return nil
			})
			return func() { empty(); repair() }
		},
	}
}

func TestRunThatFailsLeavesNothing(t *testing.T) {
	onNodes(t, withCNI, steps(), func(n *node, breakIt func(*node) (repair func())) {
		other := n.run("other")
		repair := breakIt(n)
		id, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Require(n, err != nil, "Run made %s", id)
		repair()
		n.wantState(other, ready)
		n.removeLast(other)
		// The same request succeeds afterwards.
		n.must(n.Remove(n.Context(), n.run("web")))
		n.wantNothing()
	})
}
