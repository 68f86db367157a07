package sandbox

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/vishvananda/netlink"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// addEth0 has CNI ADD make an interface.
func (n *node) addEth0() {
	n.network.onAdd = func(ctx context.Context, pod cni.Pod) error {
		return netns.Open(pod.NetnsPath).Do(ctx, func() error {
			return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}})
		})
	}
}

// The sysctls of an interface are set when CNI has made it, whatever holds the pod's namespaces.
func TestSysctlOfAnInterface(t *testing.T) {
	const name, file = "net.ipv4.conf.eth0.rp_filter", "/proc/sys/net/ipv4/conf/eth0/rp_filter"
	onEachKind(t, func(n *node) {
		n.addEth0()
		config := podConfig("web")
		config.Linux.Sysctls = map[string]string{name: "2", "net.ipv4.ip_unprivileged_port_start": "7"}
		id := n.runConfig(config)
		n.must(netns.Open(n.pod(id).Status.NetnsPath).Do(n.Context(), func() error {
			got, err := os.ReadFile(file)
			testutil.Assert(n, strings.TrimSpace(string(got)) == "2", "it is %q", got)
			return err
		}))
		n.must(n.Remove(n.Context(), id))

		config = podConfig("other")
		config.Linux.Sysctls = map[string]string{"net.ipv4.conf.eth1.rp_filter": "2"}
		_, err := n.Run(n.Context(), config, "")
		testutil.Assert(n, errdefs.IsInvalidArgument(err) &&
			strings.Contains(err.Error(), "config.linux.sysctls: sysctl net.ipv4.conf.eth1.rp_filter"),
			"an interface that CNI does not make: %v", err)
		n.wantNothing()
	})
}

// The sysctls of an interface are also set for a pod with a user namespace of its own.
func TestSysctlOfAnInterfaceWithUsers(t *testing.T) {
	onEachMapped(t, func(n *node, config *runtimeapi.PodSandboxConfig) {
		n.addEth0()
		config.Linux.Sysctls = map[string]string{"net.ipv4.conf.eth0.rp_filter": "2"}
		id := n.runConfig(config)
		n.removeLast(id)
	})
}
