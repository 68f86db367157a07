package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// procs lists the processes of containers, in files that the test writes.
type procs struct{ dir string }

func (c procs) ProcsFile(driver, parent, id string) string {
	if driver == "" || parent == "" || id == "" {
		return ""
	}
	return filepath.Join(c.dir, id)
}

func (procs) ParentDirs(string, string) map[string]string { return nil }

// showProcesses lists a pod's processes in the file of procs while the engine starts the sandbox. The start call then
// goes on for a second. pids gets the sandbox's own process and returns the processes to list.
func (n *node) showProcesses(pids func(own int) []int) {
	c := procs{n.TempDir()}
	n.opts.Cgroups = c
	n.engine.started = func(id string) {
		n.engine.mu.Lock()
		own := n.engine.processes[id].cmd.Process.Pid
		n.engine.mu.Unlock()
		content := ""
		for _, pid := range pids(own) {
			content += fmt.Sprintln(pid)
		}
		n.must(os.WriteFile(filepath.Join(c.dir, id), []byte(content), 0o600))
		time.Sleep(time.Second)
	}
}

func onlyItsOwn(own int) []int { return []int{own} }

// joins records the times at which pods are joined.
func (n *node) joins() *[]time.Time {
	var times []time.Time
	n.network.setAdd(func(context.Context, cni.Pod) error {
		times = append(times, time.Now())
		return nil
	})
	return &times
}

func TestPodIsJoinedWhileItsSandboxStarts(t *testing.T) {
	type test struct {
		pids   func(own int) []int
		config func(*runtimeapi.PodSandboxConfig)
		early  bool
	}
	onNodes(t, withCNI, map[string]test{
		"its process":                 {onlyItsOwn, nil, true},
		"after a process of the node": {func(own int) []int { return []int{os.Getpid(), own} }, nil, true},
		"no process with a network":   {func(int) []int { return []int{os.Getpid(), 1 << 30, 0} }, nil, false},
		"sysctls for new interfaces": {onlyItsOwn, func(config *runtimeapi.PodSandboxConfig) {
			config.Linux.Sysctls = map[string]string{"net.ipv4.conf.default.rp_filter": "2"}
		}, false},
	}, func(n *node, tc test) {
		n.showProcesses(tc.pids)
		times := n.joins()
		config := podConfig("web")
		if tc.config != nil {
			tc.config(config)
		}
		begun := time.Now()
		id := n.runConfig(config)
		testutil.Assert(n, len(*times) == 1 && ((*times)[0].Sub(begun) < time.Second) == tc.early,
			"joined at %v after %v, want early: %v", *times, begun, tc.early)
		n.removeLast(id)
	})
}

// The sandbox ends at once, after CNI ADD has given the pod an address or while CNI ADD runs.
func TestEarlyJoinIsUndoneWhenTheStartFails(t *testing.T) {
	onNodes(t, withCNI, map[string]bool{"after CNI ADD": false, "during CNI ADD": true},
		func(n *node, whileJoining bool) {
			n.showProcesses(onlyItsOwn)
			started := n.engine.started
			n.engine.started = func(id string) {
				started(id)
				n.must(n.engine.Engine.StopContainer(n.Context(), id, 0)) // the sandbox ends at once
			}
			if whileJoining {
				n.network.setAdd(waitForEnd)
			}
			id, err := n.Run(n.Context(), podConfig("web"), "")
			testutil.Require(n, err != nil, "Run made %s", id)
			n.wantUnjoined()
			n.wantNothing()
		})
}

// A pod is not joined before its intent is on disk. Otherwise a crash would leave an address without a record.
func TestPodIsNotJoinedBeforeItsIntentIsKept(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.showProcesses(onlyItsOwn)
		times := n.joins()
		unlock := n.lockStore()
		_, err := n.Run(n.Context(), podConfig("web"), "")
		unlock()
		if err == nil || len(*times) != 0 {
			n.Errorf("Run returned %v, joined at %v", err, *times)
		}
		n.wantNothing()
	})
}

// If the sandbox runs in another network namespace than its first process, Run fails and undoes the early join.
func TestSandboxThatIsNotInTheNamespaceOfItsFirstProcess(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.showProcesses(onlyItsOwn)
		started := n.engine.started
		n.engine.started = func(id string) {
			n.engine.mu.Lock()
			first := n.engine.processes[id]
			delete(n.engine.processes, id)
			n.engine.mu.Unlock()
			defer func() { _ = first.stdin.Close(); _ = first.cmd.Wait() }()
			n.engine.newProcess(id)
			n.engine.mu.Lock()
			second := n.engine.processes[id]
			n.engine.processes[id] = first
			n.engine.mu.Unlock()
			started(id)
			n.engine.mu.Lock()
			n.engine.processes[id] = second
			n.engine.mu.Unlock()
		}
		id, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, err != nil, "Run made %s", id)
		n.wantUnjoined()
		n.wantNothing()
	})
}

func TestEarlyJoinThatFailsFailsThePod(t *testing.T) {
	onNode(t, withCNI, func(n *node) {
		n.showProcesses(onlyItsOwn)
		n.network.failAdd(errTest)
		_, err := n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errors.Is(err, errTest), "Run returned %v", err)
		n.wantNothing()
		remove := n.engine.Inject("StartContainer", dockertest.Fault{Err: errTest})
		_, err = n.Run(n.Context(), podConfig("web"), "")
		testutil.Assert(n, errors.Is(err, errTest), "Run returned %v", err)
		remove()
		n.wantNothing()
	})
}
