package pause

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/osthread"
	"github.com/criadapter/criadapter/internal/testutil"
)

// programs writes the sandbox program of each architecture into a file. It returns the command lines that run the files
// here, directly or under qemu-user. It leaves out an architecture that cannot run here.
func programs(t *testing.T) map[string][]string {
	t.Helper()
	commands := map[string][]string{}
	for arch := range architectures {
		path := filepath.Join(t.TempDir(), "pause")
		testutil.Must(t, os.WriteFile(path, mustELF(t, arch), 0o755))
		emulator := emulatorOf(arch)
		switch {
		case arch == runtime.GOARCH:
			commands[arch] = []string{path}
		case emulator != "":
			commands[arch] = []string{emulator, path}
		default:
			t.Logf("no qemu-user here: the program for %s is not run", arch)
		}
	}
	return commands
}

// emulatorOf returns the path of the emulator for an architecture, "" when it is not installed.
func emulatorOf(arch string) string {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	for _, name := range []string{"qemu-" + machine, "qemu-" + machine + "-static"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// program returns the path of the sandbox program for this machine.
func program(t *testing.T) string {
	t.Helper()
	args := programs(t)[runtime.GOARCH]
	testutil.Require(t, len(args) == 1, "no sandbox program for %s", runtime.GOARCH)
	return args[0]
}

// start runs a command in the new namespaces that the clone flags name, until the end of the test at most.
func start(t *testing.T, flags uintptr, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	testutil.Must(t, cmd.Start())
	endWithTest(t, cmd)
	return cmd
}

// endWithTest kills the process after the test if it still runs.
func endWithTest(t *testing.T, cmd *exec.Cmd) {
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
}

// waitReady waits until the program ignores SIGCHLD and sleeps: then it waits for its signals.
func waitReady(t *testing.T, pid int) {
	t.Helper()
	testutil.Until(t, "the program waits", func() bool {
		return ignoresSIGCHLD(pid) && state(pid) == "S"
	})
}

// requireExit waits for the command and checks its exit code.
func requireExit(t *testing.T, cmd *exec.Cmd, want int) {
	t.Helper()
	select {
	case err := <-testutil.Go(cmd.Wait):
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		got := cmd.ProcessState
		testutil.Assert(t, got.Exited() && got.ExitCode() == want,
			"the program ended with %v, want exit status %d", got, want)
	case <-time.After(3 * time.Minute):
		t.Fatal("the program did not end")
	}
}

func TestSignalsEndTheProgram(t *testing.T) {
	for arch, args := range programs(t) {
		for _, signal := range []syscall.Signal{unix.SIGTERM, unix.SIGINT} {
			t.Run(arch+" "+unix.SignalName(signal), func(t *testing.T) {
				cmd := start(t, 0, args...)
				waitReady(t, cmd.Process.Pid)
				testutil.Must(t, cmd.Process.Signal(signal))
				requireExit(t, cmd, 0)
			})
		}
	}
}

// SIGCONT interrupts the wait with EINTR, as freezing and thawing the container does.
func TestInterruptedWaitGoesOn(t *testing.T) {
	for arch, args := range programs(t) {
		t.Run(arch, func(t *testing.T) {
			cmd := start(t, 0, args...)
			waitReady(t, cmd.Process.Pid)
			for range 3 {
				testutil.Must(t, cmd.Process.Signal(unix.SIGSTOP))
				testutil.Until(t, "the program is stopped", func() bool { return state(cmd.Process.Pid) == "T" })
				testutil.Must(t, cmd.Process.Signal(unix.SIGCONT))
				testutil.Until(t, "the program waits again", func() bool { return state(cmd.Process.Pid) == "S" })
			}
			testutil.Must(t, cmd.Process.Signal(unix.SIGTERM))
			requireExit(t, cmd, 0)
		})
	}
}

// Process 1 of a PID namespace gets a signal with default action only while that signal is blocked.
func TestSignalsEndProcess1(t *testing.T) {
	requireRoot(t)
	t.Run("from outside the namespace", func(t *testing.T) {
		cmd := start(t, unix.CLONE_NEWPID, program(t))
		waitReady(t, cmd.Process.Pid)
		testutil.Must(t, cmd.Process.Signal(unix.SIGTERM))
		requireExit(t, cmd, 0)
	})
	t.Run("from inside the namespace", func(t *testing.T) {
		cmd := start(t, unix.CLONE_NEWPID, program(t))
		waitReady(t, cmd.Process.Pid)
		// Process 1 ends only after all other processes of its namespace have been reaped. So the test waits for the
		// sender, which the end of the namespace may kill.
		startInside(t, cmd.Process.Pid, "sh", "-c", "kill -TERM 1").Wait()
		requireExit(t, cmd, 0)
	})
}

// The sandbox program reaps both an orphan that is a zombie already and an orphan that ends later. A program that only
// waits reaps neither.
func TestProcess1ReapsOrphans(t *testing.T) {
	requireRoot(t)
	for _, tt := range []struct {
		name    string
		process []string
		reaps   bool
	}{
		{"sandbox program", []string{program(t)}, true},
		{"a program that does not reap", []string{"sleep", "1000"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			init := start(t, unix.CLONE_NEWPID, tt.process...)
			if tt.reaps {
				waitReady(t, init.Process.Pid)
			}
			// A parent that never waits, with a child that ends and a child that does not.
			parent := startInside(t, init.Process.Pid, "sh", "-c", "sleep 0 & sleep 1000 & exec sleep 1000")
			var zombie, alive int
			testutil.Until(t, "one child has ended", func() bool {
				zombie, alive = 0, 0
				for _, child := range children(t, parent.Process.Pid) {
					if state(child) == "Z" {
						zombie = child
					} else {
						alive = child
					}
				}
				return zombie != 0 && alive != 0
			})
			parent.Process.Kill()
			parent.Wait()
			testutil.Until(t, "the orphan is adopted", func() bool { return parentOf(alive) == init.Process.Pid })
			testutil.Must(t, unix.Kill(alive, unix.SIGKILL))
			if tt.reaps {
				testutil.Until(t, "both orphans are reaped", func() bool {
					return state(zombie) == "" && state(alive) == ""
				})
				return
			}
			testutil.Until(t, "both orphans stay zombies", func() bool {
				return state(zombie) == "Z" && state(alive) == "Z"
			})
		})
	}
}

// When the wait cannot work the program ends instead of spinning.
func TestRefusedWaitIsAFailure(t *testing.T) {
	requireRoot(t)
	number := map[string]uint32{"amd64": amd64RtSigtimedwait, "arm64": arm64RtSigtimedwait}[runtime.GOARCH]
	cmd := exec.Command(program(t))
	testutil.Must(t, osthread.Do(func() error {
		if err := refuse(number); err != nil {
			return err
		}
		return cmd.Start()
	}))
	requireExit(t, cmd, 1)
}

// refuse makes a system call fail with EPERM for the calling thread and its children.
func refuse(number uint32) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
}

// startInside starts a command in the PID namespace of another process.
func startInside(t *testing.T, pid int, args ...string) *exec.Cmd {
	t.Helper()
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid", pid))
	testutil.Must(t, err)
	defer ns.Close()
	cmd := exec.Command(args[0], args[1:]...)
	testutil.Must(t, osthread.Do(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWPID); err != nil {
			return err
		}
		return cmd.Start()
	}))
	endWithTest(t, cmd)
	return cmd
}

// status returns the fields of /proc/PID/status, nil for a process that is gone.
func status(pid int) map[string]string {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	fields := map[string]string{}
	for line := range bytes.Lines(content) {
		if key, value, ok := strings.Cut(string(line), ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields
}

// state returns the letter of a process's state, "" for one that is gone.
func state(pid int) string {
	letter, _, _ := strings.Cut(status(pid)["State"], " ")
	return letter
}

func parentOf(pid int) int {
	parent, _ := strconv.Atoi(status(pid)["PPid"])
	return parent
}

func ignoresSIGCHLD(pid int) bool {
	set, err := strconv.ParseUint(status(pid)["SigIgn"], 16, 64)
	return err == nil && set&(1<<(sigchld-1)) != 0
}

// children returns the processes whose parent is pid.
func children(t *testing.T, pid int) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	testutil.Must(t, err)
	var found []int
	for _, e := range entries {
		if child, err := strconv.Atoi(e.Name()); err == nil && parentOf(child) == pid {
			found = append(found, child)
		}
	}
	return found
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to make a PID namespace")
	}
}
