package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// newRigNode is a node on the real engine.
func newRigNode(t *testing.T) *node {
	t.Helper()
	env := rigenv.Require(t)
	engine, err := docker.Dial(docker.Options{Host: env.DockerHost})
	testutil.Must(t, err)
	image, pause := env.Image("test/busybox:latest"), env.Image("pause:3.9")
	for _, ref := range []string{image, pause} {
		testutil.Must(t, engine.PullImage(t.Context(), ref, docker.PullOptions{}))
	}
	n := newNode(t, engine, image, pause)
	n.commands, err = ociexec.New(filepath.Join(n.dir, "commands"))
	testutil.Must(t, err)
	n.opts.Commands = n.commands
	t.Cleanup(n.commands.Close)
	return n
}

// shell makes a running container of a shell script with a log.
func (n *node) shell(script string) string {
	n.t.Helper()
	config := n.config("sh", "-c", script)
	config.LogPath = "c/0.log"
	id := n.started(n.pod(), config)
	return id
}

// isUp waits for the one line of log that a script writes when it has set its traps.
func (n *node) isUp(id string) {
	n.t.Helper()
	path := n.look(id).Meta.LogPath
	testutil.Eventually(n.t, func() error {
		if got := contents(n.t, path); len(got) != 1 {
			return fmt.Errorf("the log holds %q", got)
		}
		return nil
	})
}

func TestRigLifecycle(t *testing.T) {
	n := newRigNode(t)
	pod := n.pod()
	config := n.config("sh", "-c", "trap 'echo down; exit 7' TERM; echo up; while true; do sleep 0.05; done")
	config.LogPath = "c/0.log"
	id := n.create(pod, config)
	n.wantState(id, created)
	n.start(id)
	n.wantState(id, running)
	n.isUp(id)
	logPath := n.look(id).Meta.LogPath
	n.refusesStart(id)
	testutil.Must(t, n.Stop(t.Context(), id, 10*time.Second), "Stop")
	n.wantState(id, exited)
	c := n.look(id)
	testutil.Assert(t, c.Status.ExitCode == 7, "exit code %d, want 7", c.Status.ExitCode)
	n.wantLog(logPath, []string{"up", "down"})
	testutil.Must(t, n.Remove(t.Context(), id), "Remove")
	n.gone(pod, id)
	n.wantLog(logPath, []string{"up", "down"}) // the kubelet removes it
}

// longRun is more than a step may take on a busy machine. Programs that a test must end run longer.
const longRun = 5 * time.Minute

func TestRigStopKillsAfterTheGracePeriod(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("trap '' TERM; echo up; while true; do sleep 0.05; done")
	n.isUp(id)
	start := time.Now()
	testutil.Must(t, n.Stop(t.Context(), id, 300*time.Millisecond))
	took := time.Since(start)
	testutil.Assert(t, took >= 300*time.Millisecond && took <= longRun, "took %v, want the grace period", took)
	c := n.look(id)
	testutil.Assert(t, c.Status.ExitCode == 137, "exit code %d", c.Status.ExitCode)
}

func TestRigExitIsSeenWithItsLog(t *testing.T) {
	n := newRigNode(t)
	for range 5 {
		id := n.shell("seq 1 2000; exit 3")
		for n.look(id).Status.FinishedAt.IsZero() {
			time.Sleep(time.Millisecond)
		}
		c := n.look(id)
		got := contents(t, c.Meta.LogPath)
		testutil.Assert(t, c.Status.ExitCode == 3 && len(got)%2000 == 0 && len(got) != 0 && got[len(got)-1] == "2000",
			"exit code %d, %d lines", c.Status.ExitCode, len(got))
	}
}

func TestRigCannotRun(t *testing.T) {
	n := newRigNode(t)
	id := n.create(n.pod(), n.config("/no/such/program"))
	err := n.Start(t.Context(), id)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "no such file"), "Start: %v", err)
	n.wantState(id, exited)
	c := n.look(id)
	testutil.Assert(t, (c.Status.ExitCode == 127 || c.Status.ExitCode == 128) &&
		strings.Contains(c.Status.Error, "no such file"), "exit code %d, error %q", c.Status.ExitCode, c.Status.Error)
	testutil.Assert(t, !c.Status.FinishedAt.IsZero() && !c.Status.FinishedAt.Before(c.Meta.CreatedAt),
		"created at %v, finished at %v", c.Meta.CreatedAt, c.Status.FinishedAt)
	testutil.Check(t, n.Remove(t.Context(), id), "Remove")
}

func TestRigUpdate(t *testing.T) {
	rigenv.RequireControllers(t, "cpu", "cpuset", "memory")
	n := newRigNode(t)
	config := n.config("sleep", "1000")
	config.Linux = &runtimeapi.LinuxContainerConfig{
		Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 32 * mib}}
	id := n.started(n.pod(), config)
	for _, limit := range []int64{256 * mib, 16 * mib} { // far above the first limit, then below it
		err := n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{
			MemoryLimitInBytes: limit, CpuShares: 512, CpuPeriod: 100_000, CpuQuota: 50_000, CpusetCpus: "0",
			Unified: map[string]string{"memory.high": "max"},
		}))
		testutil.Require(t, err == nil, "Update to %d: %v", limit, err)
		inspect, err := n.engine.InspectContainer(t.Context(), id)
		testutil.Must(t, err)
		h := inspect.HostConfig
		testutil.Assert(t, h.Memory == limit && h.CPUShares == 512 && h.CPUQuota == 50_000 && h.CpusetCpus == "0",
			"the engine has memory %d, shares %d, quota %d, cpus %q", h.Memory, h.CPUShares, h.CPUQuota, h.CpusetCpus)
	}
}

// The Docker API takes the OOM score only when a container is created. An update reaches every process of the
// container, and also a container that has not started.
func TestRigUpdateOfTheOOMScore(t *testing.T) {
	n := newRigNode(t)
	n.opts.Cgroups = &mountedCgroups{}
	config := n.config("sh", "-c", "sleep 1000 & sleep 1000")
	config.Linux = &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{OomScoreAdj: 900}}
	scores := func(id string) (all []string) {
		for _, pid := range n.pidsOf(n.look(id)) {
			score, err := os.ReadFile(oomScoreFile(pid))
			testutil.Must(t, err)
			all = append(all, strings.TrimSpace(string(score)))
		}
		return all
	}
	change := func(id string, score int64) {
		t.Helper()
		testutil.Must(t, n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{OomScoreAdj: score})))
	}
	pod := n.pod()
	id := n.started(pod, config)
	testutil.Until(t, "two processes", func() bool { return len(scores(id)) == 2 })
	change(id, 950)
	got := scores(id)
	testutil.Assert(t, slices.Equal(got, []string{"950", "950"}), "the scores are %s, want 950", got)
	testutil.Equal(t, n.look(id).Status.Resources.GetLinux().GetOomScoreAdj(), 950, "the status")
	config.Metadata.Attempt++
	later := n.create(pod, config)
	change(later, 800)
	n.start(later)
	got = scores(later)
	testutil.Assert(t, !slices.Contains(got, "900"), "after the start the scores are %s, want 800", got)
}

func (n *node) exec(id string, timeout time.Duration, script string) (*ExecResult, error) {
	return n.ExecSync(n.t.Context(), id, ExecRequest{Command: []string{"sh", "-c", script}, Timeout: timeout})
}

func TestRigExecSync(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	tests := []struct {
		script, stdout, stderr string
		code                   int32
	}{
		{"true", "", "", 0},
		{"echo out; echo err >&2; exit 3", "out\n", "err\n", 3},
		{"exec >&- 2>&-; sleep 0.3; exit 4", "", "", 4},
		{"kill -9 $$", "", "", 137},
		{`printf '\377\000'`, "\xff\x00", "", 0},
	}
	for _, tt := range tests {
		got, err := n.exec(id, time.Minute, tt.script)
		if err != nil {
			t.Errorf("%s: %v", tt.script, err)
			continue
		}
		testutil.Assert(t, string(got.Stdout) == tt.stdout && string(got.Stderr) == tt.stderr &&
			got.ExitCode == tt.code, "%s: %q, %q, %d", tt.script, got.Stdout, got.Stderr, got.ExitCode)
	}
	got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"no-such-command"}})
	testutil.Assert(t, err == nil && (got.ExitCode == 126 || got.ExitCode == 127) &&
		bytes.Contains(got.Stdout, []byte("no-such-command")), "no such command: %+v, %v", got, err)
}

func TestRigExecSyncCapsTheOutput(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	got, err := n.exec(id, time.Minute, "head -c 20000000 /dev/zero; echo end >&2; exit 5")
	testutil.Assert(t, err == nil && got.ExitCode == 5 && string(got.Stderr) == "end\n" &&
		len(got.Stdout) == maxResponse-len("end\n"), "%d and %d bytes, %v", len(got.Stdout), len(got.Stderr), err)
}

// A background child holds the output open. ExecSync neither waits for the child nor kills it.
func TestRigExecSyncDoesNotWaitForChildren(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	start := time.Now()
	got, err := n.exec(id, time.Minute, "echo out; sleep 543 & exit 6")
	testutil.Assert(t, err == nil && got.ExitCode == 6 && string(got.Stdout) == "out\n", "ExecSync: %+v, %v", got, err)
	took := time.Since(start)
	testutil.Assert(t, took <= longRun, "took %v", took)
	testutil.Assert(t, n.runs(id, "sleep 543"), "the child was killed")
}

// runs reports whether a command line is among the processes of a container.
func (n *node) runs(id, command string) bool {
	n.t.Helper()
	all, err := proctable.All()
	testutil.Must(n.t, err)
	for _, p := range all {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if err == nil && proctable.InContainer(p.PID, id) &&
			strings.Contains(string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))), command) {
			return true
		}
	}
	return false
}

// mountedCgroups finds cgroups at their usual mount points. found counts the successful searches.
type mountedCgroups struct{ found atomic.Int32 }

func (m *mountedCgroups) CgroupDir(id string, pid int, controller string) (string, bool, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(content)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		path := filepath.Join("/sys/fs/cgroup", parts[1], parts[2])
		if _, err := os.Stat(path); err == nil && strings.Contains(parts[2], id) &&
			(parts[1] == "" || parts[1] == controller) {
			m.found.Add(1)
			return path, parts[1] == "", nil
		}
	}
	return "", false, errdefs.ErrNotFound
}

func (*mountedCgroups) OOMKills(string, string) (uint64, bool) { return 0, false }

func TestRigExecSyncTimeoutKillsTheTree(t *testing.T) {
	n := newRigNode(t)
	cgroups := &mountedCgroups{}
	n.opts.Cgroups = cgroups
	defer func() {
		testutil.Assert(t, cgroups.found.Load() != 0, "the container's processes were looked for in all of /proc")
	}()
	id := n.shell("sleep 1000")
	scripts := map[string]string{
		"alone":       "exec sleep 601",
		"child":       "sleep 601; true",
		"background":  "sleep 601 & sleep 601; true",
		"grandchild":  "sh -c 'sleep 601; true'; true",
		"orphan":      "(sleep 601 &) ; sleep 602",
		"deaf":        "trap '' TERM INT; sleep 601; true",
		"only orphan": "(sleep 601 &) ; exec sleep 602",
		"own session": "setsid sleep 601 & sleep 602; true",
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := n.exec(id, time.Second, script)
			testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "ExecSync: %v", err)
			took := time.Since(start)
			testutil.Assert(t, took >= time.Second && took <= longRun, "took %v", took)
			testutil.Assert(t, !n.runs(id, "sleep 60"), "the command or a descendant still runs")
			testutil.Require(t, n.runs(id, "sleep 1000"), "the container itself was killed")
		})
	}
}

func TestRigExecSyncCancelled(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(300*time.Millisecond, cancel)
	_, err := n.ExecSync(ctx, id, ExecRequest{Command: []string{"sleep", "603"}})
	testutil.Assert(t, errors.Is(err, context.Canceled), "ExecSync: %v", err)
	testutil.Assert(t, !n.runs(id, "sleep 603"), "the command still runs")
}

// The container ends while the command runs.
func TestRigExecSyncInADyingContainer(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("sleep 1000")
	stopped := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() { stopped <- n.Stop(t.Context(), id, 0) })
	start := time.Now()
	got, err := n.exec(id, time.Minute, "sleep 604")
	testutil.Assert(t, err != nil || got.ExitCode != 0, "a command that was killed succeeded: %+v", got)
	took := time.Since(start)
	testutil.Assert(t, took <= longRun, "took %v", took)
	// The command ends with the container. The engine's stop may return later.
	testutil.Must(t, <-stopped)
	n.waitState(id, exited)
	_, err = n.exec(id, time.Minute, "true")
	testutil.Fails(t, err, errdefs.IsFailedPrecondition, "ExecSync in an ended container")
}

func TestRigMountSourceThatCannotBe(t *testing.T) {
	n := newRigNode(t)
	pod := n.pod()
	config := n.config("true")
	dangling, target := filepath.Join(n.dir, "dangling"), filepath.Join(n.dir, "missing")
	testutil.Must(t, os.Symlink(target, dangling))
	config.Mounts = []*runtimeapi.Mount{{HostPath: dangling, ContainerPath: "/data"}}
	_, err := n.Create(t.Context(), pod, config, nil)
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "Create: %v", err)
	_, err = os.Lstat(target)
	testutil.Assert(t, err != nil, "the link's target was made")
	n.wantNothing(pod)
}

func TestRigRecover(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo line $i; sleep 0.01; done; exit 9")
	for range 4 {
		time.Sleep(200 * time.Millisecond)
		n.restart(func() { time.Sleep(300 * time.Millisecond) })
	}
	n.waitState(id, exited)
	c := n.look(id)
	testutil.Assert(t, c.Status.ExitCode == 9, "exit code %d", c.Status.ExitCode)
	n.wantLog(n.look(id).Meta.LogPath, numbered(1, 300))
}
