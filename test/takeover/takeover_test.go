package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestTakeOver brings up pods of every kind under cri-dockerd and then starts criadapter instead. The pods must be the
// same. The test then uses and removes them under criadapter.
func TestTakeOver(t *testing.T) {
	n := newNode(t)
	n.onCRIDockerd()
	before := n.bringUp()
	collectors := n.startCollectors()
	n.stopKubelet()
	n.stopServer()
	written := n.lastLine(n.logPath("history", "app", 0))
	n.onCriadapter()
	n.same(before)
	t.Logf("%d pods and %d containers before, the same after, 0 restarts, 0 addresses changed", len(before.pods),
		len(before.containers))

	for _, log := range [][2]string{{"web", "app"}, {"history", "app"}, {"node", "app"}, {"done", "good"},
		{"pids", "app"}} {
		path := n.logPath(log[0], log[1], 0)
		n.wantContiguous(path, 0, n.lastLine(path)+20)
	}
	n.wantContiguous(n.logPath("crash", "app", 1), 0, 20)
	n.wantReadBy(collectors, written)
	n.works(before)
	n.restarts(before)
	n.rotates(before)
	n.removeAll()
}

// collectors read the log of the pod history.
type collectors struct {
	stop     func()
	readers  map[time.Duration]*reader
	finished chan error
}

// startCollectors starts a collector that leaves a replaced log at once, and one that reads it for five more seconds,
// as fluent-bit does.
func (n *node) startCollectors() *collectors {
	ctx, stop := context.WithCancel(n.t.Context())
	n.t.Cleanup(stop)
	c := &collectors{stop: stop, readers: map[time.Duration]*reader{}, finished: make(chan error, 2)}
	path := n.logPath("history", "app", 0)
	for _, wait := range []time.Duration{0, 5 * time.Second} {
		r := &reader{}
		c.readers[wait] = r
		go func() { c.finished <- collect(ctx, path, wait, r) }()
	}
	return c
}

// wantReadBy checks that collectors miss no line. They read all lines from before the swap twice, because the log is a
// new file after the swap.
func (n *node) wantReadBy(c *collectors, written int) {
	n.t.Helper()
	until := n.lastLine(n.logPath("history", "app", 0))
	for wait, r := range c.readers {
		testutil.EventuallyWithin(n.t, patience, "the collector has read on", func() error {
			if last := r.last(); last < until {
				return fmt.Errorf("the collector is at line %d of %d", last, until)
			}
			return nil
		})
		lines, twice, missing := r.sum()
		n.t.Logf(
			"a collector that reads a replaced log for %v more: %d lines, %d of them twice, %d missing; %d lines "+
				"were there before", wait, lines, twice, missing, written+1)
		testutil.Assert(n.t, missing == 0 && twice > written,
			"a collector has missed %d lines and read %d twice, of %d", missing, twice, written+1)
	}
	c.stop()
	for range c.readers {
		testutil.Check(n.t, <-c.finished)
	}
}

// works uses the containers as clients do.
func (n *node) works(before view) {
	n.t.Helper()
	for _, name := range []string{"web/app#0", "node/app#0", "crash/app#1", "pids/app#0"} {
		got, err := n.exec(before.containers[name].id, "echo", "yes")
		testutil.Assert(n.t, err == nil && got == "yes\n", "exec in %s: %q, %v", name, got, err)
	}
	got, err := n.exec(before.containers["web/app#0"].id, "cat", "/data/made")
	testutil.Assert(n.t, err == nil && got == "made\n", "the volume holds %q, %v", got, err)
	stats, err := n.cri.ListPodSandboxStats(n.t.Context(), nil)
	testutil.Assert(n.t, err == nil && len(stats) == len(before.pods),
		"%d pods have stats, %v; want %d", len(stats), err, len(before.pods))
	for _, pod := range stats {
		onHost := pod.GetAttributes().GetMetadata().GetName() == "node-node"
		if rx := pod.GetLinux().GetNetwork().GetDefaultInterface().GetName(); !onHost && rx != "eth0" {
			n.t.Errorf("pod %s has the stats of interface %q", pod.GetAttributes().GetMetadata().GetName(), rx)
		}
	}
	url, err := n.cri.Attach(n.t.Context(),
		&runtimeapi.AttachRequest{ContainerId: before.containers["web/side#0"].id, Stdin: true, Tty: true,
			Stdout: true})
	testutil.Assert(n.t, err == nil && url.GetUrl() != "", "attach: %v, %v", url, err)
	for name, pod := range before.pods {
		alive := netns.Open(netns.PodPin("", pod.id)).Alive()
		testutil.Assert(n.t, alive != pod.host, "pod %s is pinned: %v", name, alive)
	}
	rules := n.rules()
	testutil.Assert(n.t, strings.Contains(rules, "18080") && strings.Contains(rules, "18053"),
		"no rules for the host's ports:\n%s", rules)
}

// restarts ends a container. The kubelet makes the next one in the same pod, with the same files.
func (n *node) restarts(before view) {
	n.t.Helper()
	resolvConf, err := n.exec(before.containers["web/app#0"].id, "cat", "/etc/resolv.conf")
	testutil.Must(n.t, err)
	testutil.Must(n.t, n.cri.StopContainer(n.t.Context(), before.containers["web/app#0"].id, 1))
	testutil.EventuallyWithin(n.t, patience, "the container is started again", func() error {
		now, err := n.look()
		if err != nil {
			return err
		}
		next := now.containers["web/app#1"]
		if now.pods["web#0"].id != before.pods["web#0"].id ||
			next.state != runtimeapi.ContainerState_CONTAINER_RUNNING.String() {
			return fmt.Errorf("got %s", now)
		}
		for command, want := range map[string]string{"/etc/resolv.conf": resolvConf, "/data/made": "made\n"} {
			if got, err := n.exec(next.id, "cat", command); err != nil || got != want {
				return fmt.Errorf("%s holds %q, %v; want %q", command, got, err, want)
			}
		}
		hostname, err := n.exec(next.id, "hostname")
		if err != nil || strings.TrimSpace(hostname) != "web-node" {
			return fmt.Errorf("the host name is %q, %v", hostname, err)
		}
		return nil
	})
	n.wantContiguous(n.logPath("web", "app", 1), 0, 5)
}

// rotates rotates a log as a kubelet does.
func (n *node) rotates(before view) {
	n.t.Helper()
	path := n.logPath("pids", "app", 0)
	testutil.Must(n.t, os.Rename(path, path+".20260101-000000"))
	testutil.Must(n.t, n.cri.ReopenContainerLog(n.t.Context(), before.containers["pids/app#0"].id))
	last := n.lastLine(path + ".20260101-000000")
	n.wantContiguous(path, last+1, last+10)
}

// removeAll removes the manifests, and waits until nothing is left of any pod.
func (n *node) removeAll() {
	n.t.Helper()
	now, err := n.look()
	testutil.Must(n.t, err)
	for name := range pods {
		testutil.Must(n.t, os.Remove(filepath.Join(n.manifests(), name+".yaml")))
	}
	n.removeAllPods(func() error { return errors.Join(n.leftInKernel(now), n.leftOnDisk()) })
	n.t.Logf("%d pods removed: 0 leases, 0 rules, 0 pins, 0 containers, 0 records are left", len(now.pods))
}

// removeAllPods waits until no container runs and removes the sandboxes, since a kubelet would keep them for a minute.
// Then it waits until nothing is left.
func (n *node) removeAllPods(left func() error) {
	n.t.Helper()
	testutil.EventuallyWithin(n.t, patience, "all pods have ended", func() error {
		now, err := n.look()
		if err != nil {
			return err
		}
		if count := now.count(runtimeapi.ContainerState_CONTAINER_RUNNING); count > 0 {
			return fmt.Errorf("%d containers run", count)
		}
		for _, pod := range now.pods {
			if err := errors.Join(n.cri.StopPodSandbox(n.t.Context(), pod.id),
				n.cri.RemovePodSandbox(n.t.Context(), pod.id)); err != nil {
				return err
			}
		}
		return left()
	})
}

// leftInKernel lists the remains of pods in the engine and the kernel, and the leased addresses.
func (n *node) leftInKernel(of view) error {
	var errs []error
	list, err := n.engine.ContainerList(n.t.Context(), client.ContainerListOptions{All: true})
	errs = append(errs, err)
	for _, c := range list.Items {
		errs = append(errs, fmt.Errorf("container %s", c.Names))
	}
	if rules := n.rules(); strings.Contains(rules, "18080") || strings.Contains(rules, "18053") ||
		strings.Contains(rules, "18081") {
		errs = append(errs, fmt.Errorf("rules:\n%s", rules))
	}
	for _, pod := range of.pods {
		if _, err := os.Lstat(netns.PodPin("", pod.id)); err == nil {
			errs = append(errs, fmt.Errorf("pin of %s", pod.id))
		}
	}
	leases, err := filepath.Glob(n.path("ipam/*/10.*"))
	errs = append(errs, err)
	for _, lease := range leases {
		errs = append(errs, fmt.Errorf("lease %s", lease))
	}
	return errors.Join(errs...)
}

// leftOnDisk lists the remaining records of criadapter and cri-dockerd.
func (n *node) leftOnDisk() error {
	var errs []error
	for _, dir := range []string{
		filepath.Join(n.criDockerd().Root(), "sandbox"), filepath.Join(n.criDockerd().CNICache(), "results"),
		filepath.Join(n.adapter.RootDir, "pods"),
		filepath.Join(n.adapter.CNICacheDir, "results"), filepath.Join(n.adapter.CNICacheDir, "pending"),
		filepath.Join(n.adapter.RootDir, "files"),
	} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, entry := range entries {
			errs = append(errs, fmt.Errorf("%s/%s", dir, entry.Name()))
		}
	}
	return errors.Join(errs...)
}

// rules returns the iptables rules of the table nat, which has the rules of the portmap plugin.
func (n *node) rules() string {
	output, err := exec.CommandContext(n.t.Context(), "iptables-save", "-t", "nat").CombinedOutput()
	testutil.Require(n.t, err == nil, "iptables-save: %v: %s", err, output)
	return string(output)
}
