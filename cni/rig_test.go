package cni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// node is the host of one test: a network namespace, and a Network with the real plugins. Its state is in the test's
// directory.
type node struct {
	*sandbox
	host   *space
	leases string
	net    *Network
}

const (
	subnet4 = "10.88.7.0/24"
	subnet6 = "fd00:88:7::/64"
)

// bridgeConf is a configuration list with the plugins bridge (with host-local) and portmap, followed by more.
func (n *node) bridgeConf(version, ranges, more string) string {
	return fmt.Sprintf(`{"cniVersion":%q,"name":"rig","plugins":[
		{"type":"bridge","bridge":"rig0","isGateway":true,"ipam":{"type":"host-local","dataDir":%q,"ranges":[%s]}},
		{"type":"portmap","capabilities":{"portMappings":true}}%s]}`, version, n.leases, ranges, more)
}

func newNode(t *testing.T) *node {
	t.Helper()
	env := rigenv.Require(t)
	n := &node{sandbox: newSandbox(t), host: newSpace(t), leases: filepath.Join(t.TempDir(), "leases")}
	n.options.BinDirs = append(n.options.BinDirs, env.CNIBinDir)
	n.configure("rig.conflist", n.bridgeConf("1.1.0", dualStack, ""))
	n.net = n.network()
	return n
}

const dualStack = `[{"subnet":"` + subnet4 + `"}],[{"subnet":"` + subnet6 + `"}]`

func (n *node) add(ctx context.Context, pod Pod) (result *Result, err error) {
	err = n.host.do(func() error {
		result, err = n.net.Add(ctx, pod)
		return err
	})
	return result, err
}

func (n *node) del(pod Pod) error {
	return n.host.do(func() error { return n.net.Del(context.Background(), pod, "rig") })
}

// leased lists the addresses that host-local holds.
func (n *node) leased() []string {
	n.t.Helper()
	entries, err := os.ReadDir(filepath.Join(n.leases, "rig"))
	if err != nil && !os.IsNotExist(err) {
		n.t.Fatal(err)
	}
	var leased []string
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err == nil {
			leased = append(leased, e.Name())
		}
	}
	return leased
}

// links counts the interfaces of the host beside lo and the bridge.
func (n *node) links() int {
	n.t.Helper()
	count := 0
	must(n.t, n.host.do(func() error {
		links, err := netlink.LinkList()
		for _, l := range links {
			if name := l.Attrs().Name; name != "lo" && name != "rig0" {
				count++
			}
		}
		return err
	}))
	return count
}

// wantNothing checks that no pod has an interface, an address or an entry in the cache.
func (n *node) wantNothing() {
	n.t.Helper()
	if n.links() != 0 || len(n.leased()) != 0 || len(n.cached()) != 0 {
		n.t.Errorf("left %d interfaces, %v, %v", n.links(), n.leased(), n.cached())
	}
}

func (n *node) pod(id string) (Pod, *space) {
	inside := newSpace(n.t)
	return Pod{ID: id, Name: id, Namespace: "test", UID: "u", NetnsPath: inside.path}, inside
}

// serve answers "hello" on a port of every address of a pod until the test ends.
func serve(t *testing.T, inside *space, port int) {
	t.Helper()
	var listener net.Listener
	must(t, inside.do(func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	}))
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			conn.Close()
		}
	}()
}

func (n *node) ask(address string) error {
	return n.host.do(func() error {
		conn, err := net.DialTimeout("tcp", address, 2*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		answer, err := io.ReadAll(conn)
		if err == nil && string(answer) != "hello" {
			err = fmt.Errorf("answered %q", answer)
		}
		return err
	})
}

func TestDualStackPodIsReachable(t *testing.T) {
	n := newNode(t)
	pod, inside := n.pod("pod1")
	pod.PortMappings = []PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "TCP"}}
	must(t, n.host.do(func() error { return n.net.Status(context.Background()) }))
	result, err := n.add(context.Background(), pod)
	must(t, err)
	testutil.Require(t, len(result.IPs) == 2, "addresses %v", result.IPs)
	for i, subnet := range []string{subnet4, subnet6} {
		if addr, err := netip.ParseAddr(result.IPs[i]); err != nil || !netip.MustParsePrefix(subnet).Contains(addr) {
			t.Errorf("address %d is %s, want one of %s", i, result.IPs[i], subnet)
		}
	}
	must(t, inside.do(func() error {
		eth0, err := netlink.LinkByName(interfaceName)
		if err != nil {
			return err
		}
		interfaces := decodeResult(t, result).Interfaces
		at := slices.IndexFunc(interfaces, func(i *types100.Interface) bool { return i.Name == interfaceName })
		if at < 0 || interfaces[at].Mac != eth0.Attrs().HardwareAddr.String() {
			return fmt.Errorf("%+v does not have %+v", interfaces, eth0.Attrs())
		}
		return nil
	}))
	serve(t, inside, 80)
	for _, ip := range result.IPs {
		// A new bridge spends the first second on IPv6 duplicate address detection.
		testutil.Until(t, ip+" answers", func() bool { return n.ask(net.JoinHostPort(ip, "80")) == nil })
	}
	testutil.Check(t, n.ask("10.88.7.1:8080"), "host port")
	must(t, n.del(pod))
	testutil.Assert(t, n.ask("10.88.7.1:8080") != nil, "the host port answers after DEL")
	n.wantNothing()
	must(t, n.del(pod))
}

func TestFailedChainReleasesTheAddress(t *testing.T) {
	n := newNode(t)
	n.plugin("broken")
	n.script("broken.ADD", `echo '{"code":999,"msg":"out of luck"}'; exit 1`)
	n.configure("rig.conflist", n.bridgeConf("1.1.0", dualStack, `,{"type":"broken"}`))
	testutil.Until(t, "new chain", func() bool { return len(n.net.Config().Plugins) == 3 })
	pod, inside := n.pod("pod1")
	_, err := n.add(context.Background(), pod)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "out of luck"), "got %v", err)
	testutil.Equal(t, n.calls(), "broken.ADD broken.DEL", "ran")
	err = inside.do(func() error { _, err := netlink.LinkByName(interfaceName); return err })
	testutil.Assert(t, errors.As(err, &netlink.LinkNotFoundError{}), "eth0 is left: %v", err)
	n.wantNothing()
}

func TestCancelledAddReleasesTheAddress(t *testing.T) {
	n := newNode(t)
	n.plugin("slow")
	n.script("slow.ADD", `sleep 300`)
	n.configure("rig.conflist", n.bridgeConf("1.1.0", dualStack, `,{"type":"slow"}`))
	testutil.Until(t, "new chain", func() bool { return len(n.net.Config().Plugins) == 3 })
	pod, _ := n.pod("pod1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := testutil.Try(func() (*Result, error) { return n.add(ctx, pod) })
	testutil.Until(t, "last plugin runs", func() bool { return n.calls() == "slow.ADD" })
	if len(n.leased()) != 2 {
		t.Errorf("leased %v before the cancel", n.leased())
	}
	cancel()
	err := <-failed
	testutil.Assert(t, errors.Is(err, context.Canceled), "got %v", err)
	n.wantNothing()
}

func TestDelAfterTheNamespaceIsGone(t *testing.T) {
	n := newNode(t)
	pod, inside := n.pod("pod1")
	pod.PortMappings = []PortMapping{{HostPort: 8080, ContainerPort: 80}}
	_, err := n.add(context.Background(), pod)
	must(t, err)
	inside.remove(t)
	must(t, os.Remove(filepath.Join(n.conf, "rig.conflist")))
	n.expect(n.net, "")
	must(t, n.del(pod))
	if len(n.leased()) != 0 || len(n.cached()) != 0 {
		t.Errorf("left %v, %v", n.leased(), n.cached())
	}
	must(t, n.del(pod))
}

func TestPodsAreJoinedInParallel(t *testing.T) {
	n := newNode(t)
	const pods = 10
	var (
		all     [pods]Pod
		results [pods]*Result
		wg      sync.WaitGroup
	)
	for i := range pods {
		all[i], _ = n.pod(fmt.Sprintf("pod%d", i))
		wg.Go(func() {
			result, err := n.add(context.Background(), all[i])
			testutil.Check(t, err)
			results[i] = result
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	seen := map[string]bool{}
	for _, result := range results {
		for _, ip := range result.IPs {
			testutil.Assert(t, !seen[ip], "%s was given twice", ip)
			seen[ip] = true
		}
	}
	if len(seen) != 2*pods || len(n.leased()) != 2*pods || n.links() != pods {
		t.Errorf("%d addresses, %d leases, %d interfaces", len(seen), len(n.leased()), n.links())
	}
	for i := range pods {
		wg.Go(func() {
			testutil.Check(t, n.del(all[i]))
		})
	}
	wg.Wait()
	n.wantNothing()
}

// The plugin host-local refuses an ADD from an exhausted range. The plugin bridge runs it and passes the error on.
func TestExhaustedRange(t *testing.T) {
	n := newNode(t)
	n.configure("rig.conflist", n.bridgeConf("0.4.0", `[{"subnet":"10.88.7.0/30"}]`, ""))
	testutil.Until(t, "small range", func() bool { return n.net.Config().CNIVersion == "0.4.0" })
	first, _ := n.pod("pod1")
	second, inside := n.pod("pod2")
	result, err := n.add(context.Background(), first)
	must(t, err)
	testutil.Assert(t, len(result.IPs) == 1 && result.IPs[0] == "10.88.7.2", "got %+v", result)
	_, err = n.add(context.Background(), second)
	testutil.Assert(t, err != nil && !errdefs.IsAlreadyExists(err), "got %v", err)
	err = inside.do(func() error { _, err := netlink.LinkByName(interfaceName); return err })
	testutil.Assert(t, errors.As(err, &netlink.LinkNotFoundError{}), "eth0 is left: %v", err)
	must(t, n.del(first))
	_, err = n.add(context.Background(), second)
	must(t, err)
	must(t, n.del(second))
}

// A pod's lo is up before any plugin runs (see the package comment). A configuration may still list the loopback
// plugin.
func TestLoopbackPluginInTheChain(t *testing.T) {
	n := newNode(t)
	n.configure("rig.conflist",
		strings.Replace(n.bridgeConf("1.1.0", dualStack, ""), `"plugins":[`, `"plugins":[{"type":"loopback"},`, 1))
	testutil.Until(t, "new chain", func() bool { return len(n.net.Config().Plugins) == 3 })
	pod, _ := n.pod("pod1")
	result, err := n.add(context.Background(), pod)
	must(t, err)
	testutil.Assert(t, len(result.IPs) == 2 && !strings.HasPrefix(result.IPs[0], "127."), "got %+v", result)
	must(t, n.del(pod))
}
