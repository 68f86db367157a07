package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// buildRig compiles the rig, to run one inside of this one.
func buildRig(t *testing.T) string {
	t.Helper()
	rigenv.Require(t)
	rig := filepath.Join(t.TempDir(), "rig")
	testutil.Must(t, program.Go(t.Context(), "build", "-o", rig, "."))
	return rig
}

// startRig starts `rig exec` of a shell script with a temporary directory of its own, and waits for the line "ready".
func startRig(t *testing.T, script string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	temp, err := os.MkdirTemp("", "r") // short, for the sockets in it
	testutil.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(temp) })
	cmd = exec.CommandContext(t.Context(), buildRig(t), "exec", "sh", "-c", script)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	testutil.Require(t, line == "ready\n", "the script said %q, %v", line, err)
	return cmd, temp
}

// users lists the processes whose command line names dir.
func users(t *testing.T, dir string) []int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	testutil.Must(t, err)
	var pids []int
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), dir) { // it may have ended meanwhile
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// sleeper is a script for startRig that keeps running.
const sleeper = "echo ready; exec sleep 1000"

func TestKilledRigLeavesNoProcess(t *testing.T) {
	cmd, temp := startRig(t, sleeper)
	if len(users(t, temp)) < 3 { // at least the two halves of the rig, dockerd and its containerd
		t.Fatalf("processes before the kill: %v", users(t, temp))
	}
	testutil.Must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	testutil.Eventually(t, func() error {
		if left := users(t, temp); len(left) > 0 {
			return fmt.Errorf("processes left: %v", left)
		}
		return nil
	})
	// A run goes on if it cannot remove an earlier run's directory, and the next run removes it.
	next := exec.CommandContext(t.Context(), buildRig(t), "exec", "true")
	next.Env = append(os.Environ(), "TMPDIR="+temp)
	out, err := next.CombinedOutput()
	testutil.Require(t, err == nil, "the next run: %v\n%s", err, out)
	left, err := filepath.Glob(temp + "/*")
	testutil.Assert(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
}

func TestInterruptedRigCleansUp(t *testing.T) {
	cmd, temp := startRig(t, sleeper)
	testutil.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	err := cmd.Wait()
	testutil.Assert(t, err != nil, "an interrupted command counts as success")
	pids := users(t, temp)
	testutil.Assert(t, len(pids) <= 0, "processes left: %v", pids)
	left, err := filepath.Glob(temp + "/*")
	testutil.Assert(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
}

func TestExecPassesTheExitCode(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), buildRig(t), "exec", "sh", "-c", "exit 7")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	testutil.Assert(t, errors.As(err, &exit) && exit.ExitCode() == 7, "%v, want exit code 7\n%s", err, out)
}

func TestNamespacesAreTheRigsOwn(t *testing.T) {
	env := rigenv.Require(t)
	_, err := os.Stat("/var/run/docker.sock")
	testutil.Assert(t, err != nil, "the installed engine's socket is visible")
	_, err = os.Stat("/run/netns")
	testutil.Check(t, err, "no directory for named network namespaces")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	testutil.Must(t, err)
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); fields[4] == "/" && !strings.HasPrefix(fields[6], "shared:") {
			t.Errorf("/ is not a shared mount: %s", line)
		}
	}
	devices, err := os.ReadFile("/proc/net/dev")
	testutil.Must(t, err)
	for line := range strings.Lines(string(devices)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		testutil.Assert(t, name != "eth0", "the machine's network is visible:\n%s", devices)
	}
	_, err = os.Stat(filepath.Join(env.CNIBinDir, "bridge"))
	testutil.Check(t, err)
}

func TestSystemEngine(t *testing.T) {
	env := rigenv.RequireSystem(t)
	ctx, cli := dial(t, env)
	answer, err := cli.Info(ctx, client.InfoOptions{})
	testutil.Must(t, err)
	testutil.Assert(t, answer.Info.DockerRootDir == env.DockerRoot,
		"the engine's root is %s, the rig says %s", answer.Info.DockerRootDir, env.DockerRoot)
	testutil.Assert(t, env.Registry == "", "registry %s, which the installed engine cannot reach", env.Registry)
}
