package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/debian/machine"
)

// step is one use of a cluster, such as a drain.
type step struct {
	name string
	do   func(*trial, context.Context) error
}

// stepNetworkPolicy is left out in clusters with IPv6, where kube-router is the network. The rules of v2.1.0 name its
// sets of IPv6 addresses without their prefix, and ip6tables-restore refuses such rules. The Go module proxy does not
// serve later versions.
const stepNetworkPolicy = "NetworkPolicy"

// stepMinikube runs only after a cluster with IPv4 alone and the usual network. Calico and Cilium leave rules and BPF
// programs in a node's kernel. minikube's own network has IPv4 alone.
const stepMinikube = "Minikube"

// leavesOut reports whether a cluster with these options cannot run a step.
func (o options) leavesOut(step string) bool {
	switch step {
	case stepNetworkPolicy:
		return o.family != familyIPv4
	case stepMinikube:
		return o.family != familyIPv4 || o.network != "" && o.network != networkFlannel
	}
	return false
}

// allSteps returns the steps in their order. The steps after Workload need its pods. Reset ends the cluster, and
// Minikube makes one of its own afterwards.
func allSteps() []step {
	return []step{
		{"NodesAreReady", (*trial).nodes},
		{"Top", (*trial).top},
		{"Workload", (*trial).workload},
		{"DNS", (*trial).dns},
		{"Addresses", (*trial).addresses},
		{"Services", (*trial).services},
		{"LogsAndExec", (*trial).logsAndExec},
		{"OCIRuntime", (*trial).ociRuntime},
		{"DevicePlugin", (*trial).devicePlugin},
		{"DRA", (*trial).dra},
		{"DRAExample", (*trial).draExample},
		{"CSI", (*trial).csi},
		{"Multus", (*trial).multus},
		{stepNetworkPolicy, (*trial).networkPolicy},
		{"Drain", (*trial).drain},
		{"UpgradeNode", (*trial).upgradeNode},
		{"Reset", (*trial).reset},
		{stepMinikube, (*trial).minikube},
	}
}

// trial is a run of steps on the running cluster.
type trial struct {
	client
	machines map[string]*machine.Machine
}

// settleTime bounds the wait for the state that a step expects.
const settleTime = 5 * time.Minute

// try runs steps, prints a line for each, and ends at the first that fails.
func try(ctx context.Context, steps []step) error {
	t := &trial{client: client{kubeconfig: kubeconfigFile}}
	var err error
	if t.plan, err = readPlan(); err != nil {
		return err
	}
	if t.machines, err = runningNodes(); err != nil {
		return err
	}
	for i, s := range steps {
		began := time.Now()
		if err := s.do(t, ctx); err != nil {
			fmt.Printf("FAIL %s\n%d passed, 1 failed\n", s.name, i)
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("ok   %s (%.1f s)\n", s.name, time.Since(began).Seconds())
	}
	fmt.Printf("%d passed, 0 failed\n", len(steps))
	return nil
}

// eventually repeats check until it succeeds.
func eventually(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	return debian.Wait(ctx, check)
}

// nodes checks that the two nodes are Ready and have the expected runtimes.
func (t *trial) nodes(ctx context.Context) error {
	const columns = `jsonpath={range .items[*]}{.metadata.name} {.status.nodeInfo.containerRuntimeVersion} ` +
		`{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`
	out, err := t.kubectl(ctx, "get", "nodes", "--output", columns)
	if err != nil {
		return err
	}
	second := "docker://29"
	if t.plan.Node2 == runtimeContainerd {
		second = "containerd://"
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "node1 docker://20.10") ||
		!strings.HasPrefix(lines[1], "node2 "+second) || strings.Count(out, " True") != 2 {
		return fmt.Errorf("the nodes are:\n%s", out)
	}
	return nil
}

// top waits for the figures of both nodes, and of pods on both.
func (t *trial) top(ctx context.Context) error {
	return eventually(ctx, func() error {
		nodes, err := t.kubectl(ctx, "top", "nodes", "--no-headers")
		if err != nil {
			return err
		}
		pods, err := t.kubectl(ctx, "top", "pods", "--all-namespaces", "--no-headers")
		if err != nil {
			return err
		}
		if strings.Contains(nodes, "<unknown>") || strings.Count(pods, "kube-proxy") != 2 {
			err = fmt.Errorf("kubectl top shows:\n%s\n%s", nodes, pods)
		}
		return err
	})
}

//go:embed workload.yaml
var workload string

// workload runs a web server on each node behind a Service, and a client on each.
func (t *trial) workload(ctx context.Context) error {
	if err := t.apply(ctx, "workload", strings.ReplaceAll(workload, "REGISTRY", registryAddress)); err != nil {
		return err
	}
	for _, what := range []string{"deployment/web", "daemonset/client"} {
		if _, err := t.kubectl(ctx, "rollout", "status", what, "--timeout=3m"); err != nil {
			return err
		}
	}
	on, err := t.podsOn(ctx, "app=web")
	if err == nil && (len(on["node1"]) != 1 || len(on["node2"]) != 1) {
		err = fmt.Errorf("the web servers are on %v", on)
	}
	return err
}

// podsOn returns the names of pods by their node.
func (t *trial) podsOn(ctx context.Context, selector string) (map[string][]string, error) {
	const columns = `jsonpath={range .items[*]}{.spec.nodeName} {.metadata.name}{"\n"}{end}`
	out, err := t.kubectl(ctx, "get", "pods", "--selector", selector, "--output", columns)
	if err != nil {
		return nil, err
	}
	on := map[string][]string{}
	for line := range strings.Lines(out) {
		node, pod, _ := strings.Cut(strings.TrimSpace(line), " ")
		on[node] = append(on[node], pod)
	}
	return on, nil
}

// eachClient runs a command in the client of each node.
func (t *trial) eachClient(ctx context.Context, command ...string) (map[string]string, error) {
	return t.each(ctx, "app=client", command...)
}

// each runs a command in a pod of the selector on each node, and returns the outputs by node.
func (t *trial) each(ctx context.Context, selector string, command ...string) (map[string]string, error) {
	on, err := t.podsOn(ctx, selector)
	if err != nil {
		return nil, err
	}
	if len(on) != 2 {
		return nil, fmt.Errorf("the pods of %s are on %v", selector, on)
	}
	outputs := map[string]string{}
	for node, pods := range on {
		out, err := t.kubectl(ctx, append([]string{"exec", pods[0], "--"}, command...)...)
		if err != nil {
			return nil, fmt.Errorf("on %s: %w", node, err)
		}
		outputs[node] = out
	}
	return outputs, nil
}

// dns looks up a Service from each node.
func (t *trial) dns(ctx context.Context) error {
	addresses, err := t.serviceAddresses(ctx)
	if err != nil {
		return err
	}
	return t.get(ctx, "http://web.default.svc.cluster.local/", 1, func(node, out string) error {
		for _, address := range addresses {
			if strings.Contains(out, "("+net.JoinHostPort(address, "80")+")") { // wget prints where it connects to
				return nil
			}
		}
		return fmt.Errorf("on %s the Service web, %v, is:\n%s", node, addresses, out)
	})
}

// serviceAddresses are the addresses of the Service web, one for each network of the cluster.
func (t *trial) serviceAddresses(ctx context.Context) ([]string, error) {
	out, err := t.kubectl(ctx, "get", "service", "web", "--output", "jsonpath={.spec.clusterIPs[*]}")
	if err != nil {
		return nil, err
	}
	addresses := strings.Fields(out)
	if len(addresses) != len(t.plan.networks()) {
		return nil, fmt.Errorf("the Service web has the addresses %v", addresses)
	}
	return addresses, nil
}

// addresses reaches both web servers from each node by each of their addresses. Every pod has one address in each of
// the cluster's networks, in the order of the networks.
func (t *trial) addresses(ctx context.Context) error {
	out, err := t.kubectl(ctx, "get", "pods", "--selector", "app=web", "--output",
		`jsonpath={range .items[*]}{.metadata.name} {.status.podIPs[*].ip}{"\n"}{end}`)
	if err != nil {
		return err
	}
	if strings.Count(out, "\n") < 1 {
		return fmt.Errorf("the web servers are:\n%s", out)
	}
	for line := range strings.Lines(out) {
		pod, addresses, _ := strings.Cut(strings.TrimSpace(line), " ")
		if err := t.isFrom(addresses); err != nil {
			return fmt.Errorf("pod %s: %w", pod, err)
		}
		for address := range strings.FieldsSeq(addresses) {
			if err := t.get(ctx, url(address, "8080"), 1, func(node, out string) error {
				if !strings.Contains(out, pod) {
					return fmt.Errorf("from %s, %s is not pod %s:\n%s", node, address, pod, out)
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// isFrom checks that addresses has one address from each of the cluster's pod networks, in the order of the networks.
func (t *trial) isFrom(addresses string) error {
	all, networks := strings.Fields(addresses), t.plan.networks()
	if len(all) != len(networks) {
		return fmt.Errorf("has the addresses %v", all)
	}
	for i, n := range networks {
		prefix, err := netip.ParsePrefix(n.pods)
		if err != nil {
			return err
		}
		address, err := netip.ParseAddr(all[i])
		if err != nil || !prefix.Contains(address) {
			return fmt.Errorf("address %q is not of %s", all[i], prefix)
		}
	}
	return nil
}

// services reaches both web servers from each node, by the Service's name and addresses and by the port of each node.
func (t *trial) services(ctx context.Context) error {
	on, err := t.podsOn(ctx, "app=web")
	if err != nil {
		return err
	}
	urls := []string{"http://web/"}
	addresses, err := t.serviceAddresses(ctx)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		urls = append(urls, url(address, "80"))
	}
	for _, n := range t.plan.networks() {
		urls = append(urls, url(n.node1, "30080"), url(n.node2, "30080"))
	}
	for _, page := range urls {
		if err := t.get(ctx, page, 16, func(from, out string) error {
			for node, pods := range on {
				if !strings.Contains(out, pods[0]) {
					return fmt.Errorf("from %s, %s never reached the web server on %s:\n%s", from, page, node, out)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// get has the client of each node fetch a page several times, and checks wget's output. It repeats this until all
// checks pass, because kube-proxy learns of a Service later than the API server.
func (t *trial) get(ctx context.Context, page string, times int, check func(node, out string) error) error {
	line := fmt.Sprintf("for i in $(seq %d); do timeout 5 wget -O - '%s' || exit; done", times, page)
	return eventually(ctx, func() error {
		outputs, err := t.eachClient(ctx, "sh", "-c", line)
		for node, out := range outputs {
			err = errors.Join(err, check(node, out))
		}
		return err
	})
}

// logsAndExec reads what the clients wrote, and asks each for its host name.
func (t *trial) logsAndExec(ctx context.Context) error {
	on, err := t.podsOn(ctx, "app=client")
	if err != nil {
		return err
	}
	names, err := t.eachClient(ctx, "hostname")
	if err != nil {
		return err
	}
	for node, pods := range on {
		log, err := t.kubectl(ctx, "logs", pods[0])
		if err != nil {
			return err
		}
		if log != "client on "+node || names[node] != pods[0] {
			return fmt.Errorf("on %s: log %q, host name %q", node, log, names[node])
		}
	}
	return nil
}

// drain drains the second node. Its web server must move to the first one.
func (t *trial) drain(ctx context.Context) error {
	if _, err := t.kubectl(ctx, "drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data",
		"--timeout=3m"); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "rollout", "status", "deployment/web", "--timeout=3m"); err != nil {
		return err
	}
	if err := eventually(ctx, func() error {
		on, err := t.podsOn(ctx, "app=web")
		if err == nil && (len(on["node1"]) != 2 || len(on) != 1) {
			err = fmt.Errorf("the web servers are on %v", on)
		}
		return err
	}); err != nil {
		return err
	}
	_, err := t.kubectl(ctx, "uncordon", "node2")
	return err
}

// upgradeNode runs kubeadm's upgrade of the second node to the version that it has, and restarts its kubelet. Then the
// nodes must be Ready.
func (t *trial) upgradeNode(ctx context.Context) error {
	if _, err := t.machines["node2"].Shell(ctx, `
		kubeadm upgrade node `+ignored+`
		systemctl restart kubelet`); err != nil {
		return err
	}
	if _, err := t.kubectl(ctx, "wait", "--for=condition=Ready", "node", "--all", "--timeout=3m"); err != nil {
		return err
	}
	return t.nodes(ctx)
}

// reset runs kubeadm reset on both nodes, the second one first. No pod and no container may be left on them.
func (t *trial) reset(ctx context.Context) error {
	nodes := t.plan.nodes()
	for _, n := range []node{nodes[1], nodes[0]} {
		if _, err := t.machines[n.name].Shell(ctx, `
			kubeadm reset --force --cri-socket `+n.socket+`
			test -z "$(crictl pods --quiet)"
			test -z "$(crictl ps --all --quiet)"
			test ! -e /etc/kubernetes/kubelet.conf`); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		if n.socket != criadapterSocket {
			continue
		}
		if _, err := t.machines[n.name].Shell(ctx, `test -z "$(docker ps --all --quiet)"`); err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
	}
	return nil
}
