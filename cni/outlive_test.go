package cni

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
)

// serverRoot is an environment variable that makes a process of this test program act as the server. Its value is the
// root of a fixture's directories (optionsBelow).
const serverRoot = "CNI_TEST_SERVER_ROOT"

// TestMain runs one Add where a test has started this program as a server.
func TestMain(m *testing.M) {
	root := os.Getenv(serverRoot)
	if root == "" {
		os.Exit(m.Run())
	}
	_ = os.Unsetenv(serverRoot)
	n, err := New(optionsBelow(root))
	if err == nil {
		_, err = n.Add(context.Background(), testPod("p"))
	}
	fmt.Fprintln(os.Stderr, "the server was not killed:", err)
	os.Exit(1)
}

// slowAdd is an ADD whose child writes its process id, and gives the pod its address when the test allows it.
const slowAdd = `%s sh -c '
	echo $$ > "$1/child.new"
	mv "$1/child.new" "$1/child"
	until [ -e "$1/go" ]; do sleep 0.02; done
	touch "$1/address"
	sleep 300' child "$dir" > /dev/null 2>&1 &
echo $$ > "$dir/plugin"
wait`

// runSlowAdd starts a server, waits until the child of its plugin works, and kills the server. launcher starts the
// child.
func (s *sandbox) runSlowAdd(launcher string) (plugin, child int) {
	s.t.Helper()
	s.script("fake.ADD", fmt.Sprintf(slowAdd, launcher))
	s.script("fake.DEL", `rm -f "$dir/address"`)
	server := exec.Command(os.Args[0], "-test.run=^$")
	server.Env = append(os.Environ(), serverRoot+"="+filepath.Dir(s.cache))
	must(s.t, server.Start())
	pids := s.pids("plugin", "child")
	must(s.t, server.Process.Kill())
	_ = server.Wait()
	return pids[0], pids[1]
}

// pids waits for the processes that the plugin writes down under these names. They end with the test.
func (s *sandbox) pids(names ...string) (pids []int) {
	s.t.Helper()
	for _, name := range names {
		var pid int
		testutil.Until(s.t, "pid of the "+name, func() bool {
			content, _ := os.ReadFile(filepath.Join(s.journal, name)) // pid is 0 until the file has content
			pid, _ = strconv.Atoi(strings.TrimSpace(string(content)))
			return pid != 0
		})
		s.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
		pids = append(pids, pid)
	}
	return pids
}

// runs reports whether a process exists and is not ending. Only such a process still has its memory, which holds the
// environment.
func runs(pid int) bool {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return len(environ) > 0
}

// A plugin goes on when the server is killed in the middle of an ADD. The next server kills the plugin before DEL.
// Later changes by the plugin would stay on the node without a record.
func TestAddThatOutlivesItsServerEndsBeforeDel(t *testing.T) {
	tests := []struct {
		name, launcher string
		endPlugin      bool
	}{
		{"plugin with a child", "", false},
		{"child in a session of its own", "setsid", false},
		{"child whose plugin has ended", "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := withFake(t, "1.0.0")
			plugin, child := s.runSlowAdd(test.launcher)
			if test.endPlugin {
				must(t, syscall.Kill(plugin, syscall.SIGKILL))
				testutil.Until(t, "the plugin ends", func() bool { return !runs(plugin) })
			}
			n := s.network()
			joined, err := n.Joined("p")
			testutil.Require(t, err == nil && joined, "nothing is kept of the ADD: %v, %v", joined, err)
			must(t, n.Del(context.Background(), Pod{ID: "p"}, ""))
			if runs(plugin) || runs(child) {
				t.Errorf("after DEL the plugin runs: %v, its child: %v", runs(plugin), runs(child))
				testutil.WriteFile(t, filepath.Join(s.journal, "go"), "")
				address := filepath.Join(s.journal, "address")
				testutil.Until(t, "the ADD goes on", func() bool { _, err := os.Stat(address); return err == nil })
				t.Error("the ADD gave the pod an address after DEL")
			}
			s.wantNothingKept()
		})
	}
}

// The kernel may hold a killed process of a plugin. The test does so with a freezer. DEL fails until that process has
// ended, and its error names the process.
func TestDelRefusesWhileAnAddCannotBeKilled(t *testing.T) {
	freezer, thaw := newFreezer(t)
	s := withFake(t, "1.0.0")
	_, child := s.runSlowAdd("")
	testutil.WriteFile(t, filepath.Join(freezer, "tasks"), fmt.Sprint(child))
	testutil.WriteFile(t, filepath.Join(freezer, "freezer.state"), "FROZEN")
	n := s.network()
	err := n.Del(context.Background(), Pod{ID: "p"}, "")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), fmt.Sprintf("process %d cannot be killed", child)),
		"got %v", err)
	testutil.Equal(t, s.calls(), "fake.ADD", "ran")
	thaw()
	must(t, n.Del(context.Background(), Pod{ID: "p"}, ""))
	if got := s.calls(); got != "fake.ADD fake.DEL" || runs(child) {
		t.Errorf("ran %s, the child runs: %v", got, runs(child))
	}
}

// Cancelling an ADD kills the plugin, but not a child of the plugin in a session of its own. Add kills that child
// before it undoes the ADD with DEL.
func TestCancelledAddHasEndedBeforeDel(t *testing.T) {
	s := withFake(t, "1.0.0")
	s.script("fake.ADD", fmt.Sprintf(slowAdd, "setsid"))
	s.script("fake.DEL", `[ -z "$(tr '\0' ' ' < /proc/$(cat "$dir/child")/environ)" ] || touch "$dir/early"`)
	ctx, cancel := context.WithCancel(context.Background())
	n := s.network()
	failed := testutil.Try(func() (*Result, error) { return n.Add(ctx, testPod("p")) })
	child := s.pids("child")[0]
	cancel()
	testutil.Assert(t, <-failed != nil, "Add succeeded")
	testutil.Assert(t, !runs(child), "process %d outlives its ADD", child)
	_, err := os.Stat(filepath.Join(s.journal, "early"))
	testutil.Assert(t, err != nil, "DEL ran while the child of the ADD did")
}

// Only an ADD of this pod is ended.
func TestOtherPluginsRunOn(t *testing.T) {
	s := newSandbox(t)
	var others []int
	for _, env := range [][]string{
		{"CNI_COMMAND=ADD", "CNI_CONTAINERID=pp"},
		{"CNI_COMMAND=DEL", "CNI_CONTAINERID=p"},
		{"CNI_CONTAINERID=p"},
		{"X=CNI_COMMAND=ADD", "CNI_CONTAINERID=p"},
	} {
		other := exec.CommandContext(t.Context(), "sleep", "300")
		other.Env = env
		other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		must(t, other.Start())
		t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
		others = append(others, other.Process.Pid)
		// The kernel shows the environment a moment after the start.
		testutil.Until(t, "the process has its environment", func() bool { return runs(other.Process.Pid) })
	}
	testutil.WriteFile(t, filepath.Join(s.cache, "pending", "p"), `{"containerID":"p","network":"net","ifName":"eth0"}`)
	must(t, endAdd(t.Context(), "p"))
	for i, pid := range others {
		testutil.Assert(t, runs(pid), "process %d was killed", i)
	}
}

// fakeProc is a procfs with one process, which is in the PID namespace of the reader.
func fakeProc(t *testing.T) (proc, process string) {
	t.Helper()
	proc = t.TempDir()
	process = filepath.Join(proc, "2000000000")
	for _, dir := range []string{filepath.Join(proc, "self"), process} {
		must(t, os.MkdirAll(filepath.Join(dir, "ns"), 0o755), os.Symlink("pid:[1]", filepath.Join(dir, "ns/pid")))
	}
	return proc, process
}

// The kernel may hold one thread of a killed process after the main thread has ended.
func TestThreadOutlivesItsProcess(t *testing.T) {
	proc, process := fakeProc(t)
	testutil.WriteFile(t, filepath.Join(process, "environ"), "")
	testutil.WriteFile(t, filepath.Join(process, "task/2000000000/environ"), "")
	testutil.WriteFile(t, filepath.Join(process, "task/2000000001/environ"), "CNI_COMMAND=ADD\x00CNI_CONTAINERID=p\x00")
	pids, err := look(t.Context(), proc, "p")
	testutil.Assert(t, err == nil && slices.Equal(pids, []int{2000000000}), "got %v, %v", pids, err)
}

func TestProcessThatCannotBeRead(t *testing.T) {
	proc, process := fakeProc(t)
	pipe := filepath.Join(process, "environ") // holds its reader
	must(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := look(ctx, proc, "p")
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // lets the reader go
	must(t, err)
	must(t, writer.Close())
}
