package ociexec

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// The runtime succeeds, and the sandbox never connects.
func TestDialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	begun := time.Now()
	_, err := (&Sandbox{program: fakeRuntime(t, "exit 0")}).Dial(ctx, 80)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
	testutil.Assert(t, time.Since(begun) < askTimeout, "it took %v", time.Since(begun))
}

// scriptedSandbox is a sandbox with the container c. Its command has the process id 7 in the sandbox, and the process
// id node on the node. The runtime has the files ps, its list of processes, and log, the signals that it was asked for.
// It lists no process that was killed.
func scriptedSandbox(t *testing.T, node int, ps, script string) (s *Sandbox, log string) {
	t.Helper()
	dir := t.TempDir()
	pidfile := filepath.Join(dir, "c", "command.pid")
	testutil.WriteFile(t, pidfile, strconv.Itoa(node))
	testutil.WriteFile(t, pidfile+ocinote.SandboxPIDSuffix, "7")
	testutil.WriteFile(t, filepath.Join(dir, "ps"), ps)
	program := fakeRuntime(t, "cd "+dir+"; shift 2\n"+script+`
[ "$1" = ps ] && exec cat ps
echo "$3 $5" >>log
[ "$5" != 9 ] || sed -i "/^0 *$3 /d" ps`)
	return &Sandbox{program: program, root: "/", environ: []string{"PATH=" + os.Getenv("PATH")}, bundles: dir},
		filepath.Join(dir, "log")
}

// sleeper starts a process that ends with the test.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	testutil.Must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd
}

// A signal reaches a command's descendants, and none of the container's other processes. The child 8 forks while it is
// killed, and leaves an orphan in the command's process group.
func TestSignalReachesDescendantsInASandbox(t *testing.T) {
	const group = "UID       PID       PPID      PGID      C         TTY       STIME     TIME      CMD\n" +
		"0         1         0         1         0         ?         10:00     10ms      server\n" +
		"0         7         0         7         0         ?         10:00     10ms      sh\n" +
		"0         8         7         7         0         ?         10:00     10ms      sleep\n" +
		"0         20        0         20        0         ?         10:00     10ms      other\n"
	const forks = `[ "$1 $3" != "kill 8" ] || echo "0 9 1 7 0 ? 10:00 1ms sleep" >>ps`
	const older = "UID       PID       PPID      C         TTY       STIME     TIME      CMD\n" +
		"0         1         0         0         ?         10:00     10ms      server\n" +
		"0         7         0         0         ?         10:00     10ms      sh\n" +
		"0         8         7         0         ?         10:00     10ms      sleep\n"
	for name, tt := range map[string]struct {
		ps, script string
		signal     unix.Signal
		want       string
	}{
		"killed":           {group, forks, unix.SIGKILL, "7 19\n7 9\n8 9\n9 9\n"},
		"hung up":          {group, "", unix.SIGHUP, "7 1\n8 1\n"},
		"an older runtime": {older, "", unix.SIGKILL, "7 19\n7 9\n8 9\n"},
	} {
		t.Run(name, func(t *testing.T) {
			node := sleeper(t).Process.Pid
			s, log := scriptedSandbox(t, node, tt.ps, tt.script)
			testutil.Must(t, s.Signal(t.Context(), "c", node, tt.signal))
			testutil.Equal(t, testutil.ReadFile(t, log), tt.want, "the signals")
		})
	}
}

// If the runtime lists no processes, Signal kills the command without its descendants. It then fails, unless the
// command's process on the node has ended.
func TestSignalWithoutAListOfProcesses(t *testing.T) {
	node := sleeper(t)
	s, log := scriptedSandbox(t, node.Process.Pid, "", "")
	err := s.Signal(t.Context(), "c", node.Process.Pid, unix.SIGKILL)
	testutil.Assert(t, errors.Is(err, errNoList), "got %v", err)
	testutil.Equal(t, testutil.ReadFile(t, log), "7 19\n7 9\n", "the signals")
	testutil.Must(t, node.Process.Kill())
	_ = node.Wait()
	testutil.Must(t, s.Signal(t.Context(), "c", node.Process.Pid, unix.SIGKILL), "a command that has ended")
}
