package takeover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
)

// late is a pod that is made under criadapter.
var late = manifest{"7777aaaa", `
  containers:
  - name: app
    image: SHELL
    imagePullPolicy: IfNotPresent
    command: LINES
    ports: [{containerPort: 80, hostPort: 18081}]
`}

// TestThereAndBack takes a node over with the command, adds a pod, and hands the node back. Then all pods are removed
// under cri-dockerd.
func TestThereAndBack(t *testing.T) {
	n := newNode(t)
	n.onCRIDockerd()
	before := n.bringUp()
	output, err := n.migrate("--from=cri-dockerd", "--apply")
	testutil.Assert(t, err != nil && strings.Contains(output, "cri-dockerd runs on this machine"),
		"beside a running cri-dockerd: %v\n%s", err, output)
	n.stopKubelet()
	n.stopServer()
	n.takeOverByCommand(before)
	n.onCriadapter()
	n.same(before)
	n.write("late", late)
	n.waitFor("late/app#0")
	with, err := n.look()
	testutil.Must(t, err)

	n.stopKubelet()
	n.stopServer()
	n.handBackByCommand(with)
	n.onCRIDockerd()
	n.same(with)
	t.Logf("%d pods and %d containers before, the same under cri-dockerd again, 0 restarts, 0 addresses changed",
		len(with.pods), len(with.containers))
	for _, log := range [][2]string{{"web", "app"}, {"history", "app"}, {"node", "app"}, {"pids", "app"}} {
		path := n.logPath(log[0], log[1], 0)
		if target, err := os.Readlink(path); err != nil || !strings.HasPrefix(target, n.env.DockerRoot) {
			t.Errorf("the log of %v links to %q, %v", log, target, err)
		}
		first, last := n.lines(path)
		testutil.Assert(t, first == 0 && last >= 20, "the log of %v has the lines %d to %d", log, first, last)
	}
	n.restartsLate(with)
	n.removeUnderCRIDockerd(with)
}

// migrate runs the command with the server's settings.
func (n *node) migrate(args ...string) (string, error) {
	n.t.Helper()
	args = slices.Concat([]string{
		"migrate", "--docker-endpoint=" + n.env.DockerHost, "--root-directory=" + n.adapter.RootDir,
		"--cni-cache-dir=" + n.adapter.CNICacheDir,
	}, n.migrateFlags(), args)
	output, err := exec.CommandContext(n.t.Context(), n.env.Criadapter, args...).CombinedOutput()
	return string(output), err
}

// takeOverByCommand shows the plan, which changes nothing, and applies it. A new plan is then empty.
func (n *node) takeOverByCommand(before view) {
	n.t.Helper()
	plan, err := n.migrate("--from=cri-dockerd")
	testutil.Require(n.t, err == nil &&
		strings.Contains(plan, fmt.Sprintf("%d pods with %d containers", len(before.pods), len(before.containers))),
		"%v\n%s", err, plan)
	n.t.Logf("the plan:\n%s", plan)
	for name, pod := range before.pods {
		_, err := os.Stat(netns.PodPin("", pod.id))
		testutil.Assert(n.t, err != nil, "showing the plan has pinned pod %s", name)
		if !pod.host && !strings.Contains(plan, pod.ips[0]) {
			n.t.Errorf("the plan does not show the address of pod %s, %v", name, pod.ips)
		}
	}
	output, err := n.migrate("--from=cri-dockerd", "--apply")
	testutil.Require(n.t, err == nil, "%v\n%s", err, output)
	output, err = n.migrate("--from=cri-dockerd")
	testutil.Assert(n.t, err == nil && strings.HasPrefix(output, "0 pods"), "afterwards: %v\n%s", err, output)
}

func (n *node) handBackByCommand(now view) {
	n.t.Helper()
	plan, err := n.migrate("--to=cri-dockerd")
	testutil.Require(n.t, err == nil && strings.Contains(plan, fmt.Sprintf("%d pods are", len(now.pods))) &&
		strings.Contains(plan, "shop/late-node: kubectl logs shows nothing new of app") &&
		strings.Count(plan, "lacks the pod's resolv.conf") == 1,
		"%v\n%s", err, plan)
	n.t.Logf("the plan back:\n%s", plan)
	for range 2 { // a repeated hand-back must succeed, too
		output, err := n.migrate("--to=cri-dockerd", "--apply")
		testutil.Require(n.t, err == nil, "%v\n%s", err, output)
	}
	for name, pod := range now.pods {
		_, err := os.Stat(netns.PodPin("", pod.id))
		testutil.Assert(n.t, err != nil, "pod %s is still pinned", name)
	}
}

func (n *node) waitFor(container string) {
	n.t.Helper()
	testutil.EventuallyWithin(n.t, patience, container+" runs", func() error {
		v, err := n.look()
		if err == nil && v.containers[container].state != runtimeapi.ContainerState_CONTAINER_RUNNING.String() {
			err = fmt.Errorf("got %s", v)
		}
		return err
	})
}

// restartsLate ends the container of the pod that criadapter has made. The next container is made under cri-dockerd.
func (n *node) restartsLate(before view) {
	n.t.Helper()
	testutil.Must(n.t, n.cri.StopContainer(n.t.Context(), before.containers["late/app#0"].id, 1))
	n.waitFor("late/app#1")
	now, err := n.look()
	testutil.Must(n.t, err)
	testutil.Assert(n.t, now.pods["late#0"].id == before.pods["late#0"].id, "the pod has a new sandbox: %s", now)
	got, err := n.exec(now.containers["late/app#1"].id, "echo", "yes")
	testutil.Assert(n.t, err == nil && got == "yes\n", "exec: %q, %v", got, err)
}

// removeUnderCRIDockerd removes all pods under cri-dockerd. Then criadapter, when it starts, drops their records.
func (n *node) removeUnderCRIDockerd(before view) {
	n.t.Helper()
	manifests, err := filepath.Glob(filepath.Join(n.manifests(), "*.yaml"))
	testutil.Must(n.t, err)
	for _, path := range manifests {
		testutil.Must(n.t, os.Remove(path))
	}
	n.removeAllPods(func() error { return n.leftInKernel(before) })
	n.t.Log("removed under cri-dockerd: 0 leases, 0 rules, 0 pins, 0 containers are left")
	n.stopKubelet()
	n.stopServer()
	n.onCriadapter()
	n.removeAllPods(func() error { return errors.Join(n.leftInKernel(before), n.leftOnDisk()) })
}
