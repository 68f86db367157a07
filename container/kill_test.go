package container

import (
	"bufio"
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
			testutil.Check(t, s.killTree(t.Context(), leader, everywhere), "killTree of what has ended")
		})
	}
}

// startSession starts a session of two processes, which ends with the test.
func startSession(t *testing.T) (leader, child int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	// A signal that a Go program handles has its default action in the programs that it starts. Under nohup they would
	// ignore SIGHUP.
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
