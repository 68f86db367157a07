package container

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
)

// A command's session can be killed and hung up, with pidfds and, as on kernels before 5.3, without them. A process
// outside of the container gets no signal.
func TestKillWithAndWithoutPidfd(t *testing.T) {
	for kernel, open := range map[string]func(int, int) (int, error){
		"today's kernel": unix.PidfdOpen,
		"kernel 5.2":     func(int, int) (int, error) { return -1, unix.ENOSYS },
	} {
		t.Run(kernel, func(t *testing.T) {
			s := &Service{pidfdOpen: open}
			const everywhere, elsewhere = "/", "no container has this id"
			leader, child := startSession(t)
			err := s.killTree(t.Context(), leader, elsewhere)
			testutil.Require(t, err == nil && proctable.Lives(leader) && proctable.Lives(child),
				"processes of another container are killed, or %v", err)
			if err := s.hangUp(leader, elsewhere); err != nil || !proctable.Lives(leader) {
				t.Fatalf("a process of another container is hung up, or %v", err)
			}
			if err := s.killTree(t.Context(), leader, everywhere); err != nil || proctable.Lives(leader) ||
				proctable.Lives(child) {
				t.Errorf("killTree: %v; the leader lives: %t, its child: %t", err, proctable.Lives(leader),
					proctable.Lives(child))
			}
			leader, _ = startSession(t)
			testutil.Check(t, s.hangUp(leader, everywhere), "SIGHUP")
			p := (heldProcess{pid: leader, fd: -1, containerID: everywhere})
			testutil.Assert(t, p.dead(longRun), "a process that was hung up lives")
			testutil.Check(t, s.killTree(t.Context(), leader, everywhere), "killTree of an ended session")
		})
	}
}

// A command that keeps forking may survive its hang-up. The error makes Exec log a warning.
func TestHangUpOfACommandThatKeepsForking(t *testing.T) {
	// The test's process stands for the command, and fork for pidfd_open. When hangUp opens the newest process, fork
	// starts another child. fork returns ESRCH, as for an ended process, so no process gets a signal.
	newest := os.Getpid()
	fork := func(pid, _ int) (int, error) {
		if pid == newest {
			child := exec.Command("sleep", "1000")
			testutil.Must(t, child.Start())
			t.Cleanup(func() {
				_ = child.Process.Kill()
				_ = child.Wait()
			})
			newest = child.Process.Pid
		}
		return -1, unix.ESRCH
	}
	p := &process{service: &Service{pidfdOpen: fork}, containerID: "/", run: &machineRun{outside: newest}}
	err := p.hangUp(t.Context())
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "faster than"), "hangUp: %v", err)
}

// startSession starts a session of two processes, which ends with the test.
func startSession(t *testing.T) (leader, child int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	// Under nohup(1), the session would inherit that SIGHUP is ignored. While this program catches SIGHUP, its children
	// start with the signal's default action.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, unix.SIGHUP)
	defer signal.Stop(hangUps)
	testutil.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	testutil.Must(t, err)
	if child, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(fmt.Errorf("the shell wrote %q: %w", line, err))
	}
	return cmd.Process.Pid, child
}

// machineRun is a command in a virtual machine. The engine reports a process outside of the container.
type machineRun struct {
	refusedRun
	outside int
}

func (r *machineRun) pid(context.Context, <-chan struct{}) (int, error) { return r.outside, nil }

// A command that gets no signal does not count as killed or hung up.
func TestCommandOutsideOfItsContainer(t *testing.T) {
	n, _ := newFakeNode(t)
	id := n.running("sleep")
	leader, _ := startSession(t)
	r := &machineRun{outside: leader}
	p := &process{service: n.Service, containerID: id, run: r}
	for name, end := range map[string]func() error{
		"killed":  func() error { return n.killRun(t.Context(), r, id, nil) },
		"hung up": func() error { return p.hangUp(t.Context()) },
	} {
		err := end()
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), "gets no signal"), "%s: %v", name, err)
		testutil.Assert(t, proctable.Lives(leader), "a process outside of the container is %s", name)
	}
	testutil.Must(t, unix.Kill(leader, unix.SIGKILL))
	testutil.Until(t, "the process has ended", func() bool { return !proctable.Lives(leader) })
	testutil.Must(t, n.killRun(t.Context(), r, id, nil), "a command that has ended")
}
