package container

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// With file descriptors of processes, and on a kernel before 5.3 without them, a command's session is killed, and hung
// up, and nothing outside of the container.
func TestKillWithAndWithoutPidfd(t *testing.T) {
	for kernel, open := range map[string]func(int, int) (int, error){
		"today's kernel": unix.PidfdOpen,
		"kernel 5.2":     func(int, int) (int, error) { return -1, unix.ENOSYS },
	} {
		t.Run(kernel, func(t *testing.T) {
			s := &Service{pidfdOpen: open}
			const everywhere, elsewhere = "/", "no container has this id"
			leader, child := startSession(t)
			if err := s.killTree(t.Context(), leader, elsewhere); err != nil || !lives(leader) || !lives(child) {
				t.Fatalf("processes of another container are killed, or %v", err)
			}
			if err := s.signalInContainer(leader, elsewhere, unix.SIGHUP); err != nil || !lives(leader) {
				t.Fatalf("a process of another container is hung up, or %v", err)
			}
			if err := s.killTree(t.Context(), leader, everywhere); err != nil || lives(leader) || lives(child) {
				t.Errorf("killTree: %v; the leader lives: %t, its child: %t", err, lives(leader), lives(child))
			}
			leader, _ = startSession(t)
			if err := s.signalInContainer(leader, everywhere, unix.SIGHUP); err != nil {
				t.Errorf("SIGHUP: %v", err)
			}
			if p := (heldProcess{pid: leader, fd: -1, containerID: everywhere}); !p.dead(longRun) {
				t.Error("a process that was hung up lives")
			}
			if err := s.killTree(t.Context(), leader, everywhere); err != nil {
				t.Errorf("killTree of what has ended: %v", err)
			}
		})
	}
}

// startSession starts a session of two processes, which ends with the test.
func startSession(t *testing.T) (leader, child int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if child, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(fmt.Errorf("the shell wrote %q: %w", line, err))
	}
	return cmd.Process.Pid, child
}
