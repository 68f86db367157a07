package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/gvisor"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// gvisorNode is a server on an engine of the test's own with the runtime gvisor.
type gvisorNode struct {
	*crictl
	engine *engine.Engine
	// ids has the ids of the containers and pods so far.
	ids *[]string
}

func newGVisorNode(t *testing.T, config map[string]any, flags ...string) *gvisorNode {
	t.Helper()
	env := rigenv.Require(t)
	runsc, err := gvisor.Runsc(t.Context())
	testutil.Must(t, err)
	own := engine.ForTest(t, engine.Options{
		Env: env, Config: config, Runtimes: map[string]string{"gvisor": runsc},
	})
	return &gvisorNode{crictl: newCrictlOn(t, own.Use(env), flags...), engine: own, ids: &[]string{}}
}

// on returns the node for a part of the test. Both nodes add to the same ids.
func (n *gvisorNode) on(t *testing.T) *gvisorNode {
	return &gvisorNode{crictl: n.crictl.on(t), engine: n.engine, ids: n.ids}
}

func (n *gvisorNode) runGVisorPod() pod {
	n.t.Helper()
	n.awaitOCIRuntime()
	p := n.runPod("--runtime=gvisor")
	*n.ids = append(*n.ids, p.id)
	return p
}

// start starts a container and remembers its id.
func (n *gvisorNode) start(p pod, name string, command ...string) string {
	n.t.Helper()
	id := n.container(p, name, shellImage, command...)
	*n.ids = append(*n.ids, id)
	return id
}

// processes returns the processes of the node's containers with this program, or with this first argument.
func (n *gvisorNode) processes(program string) (pids []int) {
	n.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	testutil.Must(n.t, err)
	for _, path := range lines {
		content, _ := os.ReadFile(path) // the process may have ended
		line := string(content)
		args := strings.Split(line, "\x00")
		if len(args) < 2 || args[0] != program && args[1] != program ||
			!slices.ContainsFunc(*n.ids, func(id string) bool { return strings.Contains(line, id) }) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		testutil.Must(n.t, err)
		pids = append(pids, pid)
	}
	return pids
}

const (
	sandboxProgram = "runsc-sandbox"
	goferProgram   = "runsc-gofer"
	waiterArgument = "--criadapter-wait"
	guardArgument  = "--criadapter-guard"
)

// nothingLeft checks that no process of gVisor and no network namespace of the pod is left.
func (n *gvisorNode) nothingLeft(podID string) {
	n.t.Helper()
	testutil.Eventually(n.t, func() error {
		for _, program := range []string{sandboxProgram, goferProgram, waiterArgument, guardArgument} {
			if left := n.processes(program); len(left) > 0 {
				return fmt.Errorf("processes of %s are left: %v", program, left)
			}
		}
		if _, err := os.Stat("/run/netns/criadapter-" + podID); err == nil {
			return fmt.Errorf("the network namespace of pod %s is left", podID)
		}
		return nil
	})
}

// TestGVisorPod: all containers of a pod run in one sandbox of gVisor, in the pod network.
func TestGVisorPod(t *testing.T) {
	n := newGVisorNode(t, nil)
	p := n.runGVisorPod()
	server := n.start(p, "server", "nc", "-ll", "-p", "9000", "-e", "wc", "-c")
	other := n.start(p, "other", "sleep", "1000")
	for _, id := range []string{server, other} {
		log := n.run("exec", "-s", id, "dmesg")
		testutil.Assert(t, strings.Contains(log, "Starting gVisor"), "dmesg: %s", log)
	}
	testutil.Equal(t, len(n.processes(sandboxProgram)), 1, "sandbox processes")
	n.awaitListener(server, 9000)
	n.start(p, "lines", "nc", "-ll", "-p", "9002", "-e", "head", "-n", "1")
	n.awaitListener(server, 9002)

	t.Run("network", func(t *testing.T) {
		n := n.on(t)
		var status struct {
			Status struct{ Network struct{ IP string } }
		}
		n.read(&status, "inspectp", p.id)
		for _, address := range []string{"127.0.0.1", status.Status.Network.IP} {
			same(t, "bytes counted at "+address,
				n.run("exec", "-s", other, "sh", "-c", "printf four | nc "+address+" 9000"), "4")
		}
		same(t, "bytes counted from the node", ask(t, status.Status.Network.IP+":9000", "seven.."), "7")
		_, address := n.forward(p.id, "--transport=spdy", 9002)
		for _, length := range []int{4, 32 << 10} {
			line := strings.Repeat("x", length)
			testutil.Assert(t, ask(t, address, line+"\n") == line, "a line of %d bytes did not come back", length)
		}
		_, refused := n.forward(p.id, "--transport=spdy", 9001)
		same(t, "the answer of a closed port", ask(t, refused, "x"), "")
	})

	t.Run("stats", func(t *testing.T) {
		n := n.on(t)
		busy := n.start(p, "busy", "sh", "-c", "while true; do :; done")
		cpu := func(id string) (nanos, memory uint64) {
			var stats struct {
				Stats []struct {
					CPU    struct{ UsageCoreNanoSeconds struct{ Value string } }
					Memory struct{ WorkingSetBytes struct{ Value string } }
				}
			}
			n.read(&stats, "stats", "-o", "json", "--seconds", "1", id)
			testutil.Require(t, len(stats.Stats) == 1, "stats of %s: %+v", id, stats)
			nanos, _ = strconv.ParseUint(stats.Stats[0].CPU.UsageCoreNanoSeconds.Value, 10, 64)
			memory, _ = strconv.ParseUint(stats.Stats[0].Memory.WorkingSetBytes.Value, 10, 64)
			return nanos, memory
		}
		testutil.Eventually(t, func() error {
			busyCPU, busyMemory := cpu(busy)
			idleCPU, idleMemory := cpu(other)
			if busyCPU < uint64(time.Second) || idleCPU > busyCPU/2 || busyMemory == 0 || idleMemory == 0 {
				return fmt.Errorf("the busy container used %d ns and %d bytes, the idle one %d and %d", busyCPU,
					busyMemory, idleCPU, idleMemory)
			}
			return nil
		})
		n.run("stop", "--timeout", "20", busy)
		n.await(busy, "CONTAINER_EXITED 143") // the first process has no protection from signals
	})

	t.Run("timeout of a command", func(t *testing.T) {
		n := n.on(t)
		late := n.try("exec", "-s", "--timeout", "1", other, "sleep", "4321")
		testutil.Assert(t, late.code != 0, "the command ended within its timeout")
		n.awaitNoProcess(other, "4321")
	})

	t.Run("ends", func(t *testing.T) {
		n := n.on(t)
		short := n.start(p, "short", "sh", "-c", "echo out; echo err >&2; sleep 1; exit 7")
		n.await(short, "CONTAINER_EXITED 7")
		logs := n.try("logs", short)
		same(t, "the log", logs.stdout+logs.stderr, "out\nerr\n")
		n.run("stop", "--timeout", "20", other)
		n.run("rm", other)
	})
	n.run("stopp", p.id)
	n.run("rmp", "-f", p.id)
	n.nothingLeft(p.id)
}

// TestGVisorSurvivesKills: after each kill, the server shows the real state of the containers, and the pod can be
// removed.
func TestGVisorSurvivesKills(t *testing.T) {
	n := newGVisorNode(t, map[string]any{"live-restore": true})
	kill := func(t *testing.T, pids []int) {
		testutil.Require(t, len(pids) > 0, "there is nothing to kill")
		for _, pid := range pids {
			testutil.Must(t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	running := func(t *testing.T, id string) {
		n := n.on(t)
		testutil.Eventually(t, func() error { // while the engine comes back
			if r := n.try("exec", "-s", id, "echo", "alive"); strings.TrimSpace(r.stdout) != "alive" {
				return fmt.Errorf("a command in the container: %+v", r)
			}
			return nil
		})
		n.await(id, "CONTAINER_RUNNING 0")
	}
	ended := func(t *testing.T, id string) { n.on(t).await(id, "CONTAINER_EXITED 137") }
	for name, c := range map[string]struct {
		kill func(t *testing.T)
		then func(t *testing.T, id string)
	}{
		"the sandbox": {func(t *testing.T) { kill(t, n.on(t).processes(sandboxProgram)) }, ended},
		"the gofers":  {func(t *testing.T) { kill(t, n.on(t).processes(goferProgram)) }, nil},
		"the guard":   {func(t *testing.T) { kill(t, n.on(t).processes(guardArgument)) }, ended},
		"the waiter":  {func(t *testing.T) { kill(t, n.on(t).processes(waiterArgument)) }, ended},
		"criadapter":  {func(t *testing.T) { n.server.Kill(); testutil.Must(t, n.server.Start(t.Context())) }, running},
		"the engine":  {func(t *testing.T) { n.engine.Kill(); testutil.Must(t, n.engine.Start(t.Context())) }, running},
		"containerd":  {func(t *testing.T) { testutil.Must(t, n.engine.KillContainerd()) }, running},
	} {
		t.Run(name, func(t *testing.T) {
			n := n.on(t)
			p := n.runGVisorPod()
			id := n.start(p, strings.ReplaceAll(name, " ", "-"), "sleep", "1000")
			c.kill(t)
			if c.then != nil {
				c.then(t, id)
			}
			n.run("stopp", p.id)
			n.run("rmp", "-f", p.id)
			n.nothingLeft(p.id)
		})
	}
}

// TestGVisorNeedsItsParts: without criadapter-oci, a pod of gVisor is refused with the reason, and Status has no
// handler gvisor.
func TestGVisorNeedsItsParts(t *testing.T) {
	n := newGVisorNode(t, nil, "--oci-runtime=off")
	refused := n.try("runp", "--runtime=gvisor", n.write("pod.json", map[string]any{
		"metadata": map[string]any{"name": "a", "namespace": "e2e", "uid": "u"}, "linux": map[string]any{},
	}))
	testutil.Assert(t, refused.code != 0 && strings.Contains(refused.stderr, "criadapter-oci"), "runp: %+v", refused)
	var info struct {
		RuntimeHandlers []struct{ Name string }
	}
	testutil.Must(t, json.Unmarshal([]byte(n.run("info")), &info))
	for _, handler := range info.RuntimeHandlers {
		testutil.Assert(t, handler.Name != "gvisor", "gvisor is a handler without criadapter-oci")
	}
}

// TestGVisorOnTheEnginesBridge: the engine connects the pod, whose containers share a sandbox all the same.
func TestGVisorOnTheEnginesBridge(t *testing.T) {
	n := newGVisorNode(t, map[string]any{"bridge": ""}, "--network-plugin=bridge")
	p := n.runGVisorPod()
	server := n.start(p, "server", "nc", "-ll", "-p", "9000", "-e", "wc", "-c")
	other := n.start(p, "other", "sleep", "1000")
	testutil.Equal(t, len(n.processes(sandboxProgram)), 1, "sandbox processes")
	n.awaitListener(server, 9000)
	same(t, "bytes counted on loopback", n.run("exec", "-s", other, "sh", "-c", "printf four | nc 127.0.0.1 9000"), "4")
	n.run("stopp", p.id)
	n.run("rmp", "-f", p.id)
	n.nothingLeft(p.id)
}
