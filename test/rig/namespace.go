package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/test/netdevice"
)

// The rig executes itself twice. The first process (commandInit) is the init of new namespaces: it arranges mounts and
// the loopback device, and reaps orphans. When it ends, the kernel kills all other processes inside. The second
// (commandInside) does the work.
const (
	commandInit   = "namespace-init"
	commandInside = "inside"
)

// Descriptors that the init inherits after the standard ones.
const (
	fdAlive = 3 // read end of a pipe that closes when the rig outside ends
	fdLock  = 4 // the scratch directory's lock
	fdQueue = 5 // the numbers of the tests to run, see newQueue; only if the plan has tests
)

// fdInsideQueue is the queue's descriptor in the second process.
const fdInsideQueue = 3

// stopTimeout is the time from a signal until waitInit kills everything inside that has not ended.
const stopTimeout = 90 * time.Second

// enter runs the plan in new namespaces and returns the exit code. queue says which of the plan's tests to run, and is
// nil in a plan without tests. An interrupt or SIGTERM is passed on, so that the processes inside can clean up.
func enter(ctx context.Context, s *scratch, p plan, queue *os.File) (int, error) {
	if ctx.Err() != nil {
		return 1, context.Cause(ctx)
	}
	if err := writePlan(s.dir, p); err != nil {
		return 1, err
	}
	watch, alive, err := os.Pipe()
	if err != nil {
		return 1, err
	}
	defer alive.Close()
	cmd := exec.Command("/proc/self/exe", commandInit, s.dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{watch, s.lock, queue}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	err = cmd.Start()
	watch.Close()
	if err != nil {
		return 1, fmt.Errorf("new namespaces: %w", err)
	}
	if p.stays() {
		fmt.Printf("To get in: nsenter --target %d --mount --net --pid\n", cmd.Process.Pid)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return waitInit(cmd, p, signals, done)
}

// waitInit waits for the namespaces' end and passes signals on. It kills the init after stopTimeout, unless the signal
// is an interrupt for a command inside.
func waitInit(cmd *exec.Cmd, p plan, signals <-chan os.Signal, done <-chan error) (int, error) {
	var limit <-chan time.Time
	for {
		select {
		case sig := <-signals:
			_ = cmd.Process.Signal(sig) // fails only when it has just ended
			if (sig == syscall.SIGTERM || len(p.Command) == 0) && limit == nil {
				limit = time.After(stopTimeout)
			}
		case <-limit:
			_ = cmd.Process.Kill()
		case err := <-done:
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() >= 0 {
				return exit.ExitCode(), nil
			}
			if err != nil {
				return 1, fmt.Errorf("inside: %w", err)
			}
			return 0, nil
		}
	}
}

// initMain is the namespaces' first process.
func initMain(args []string) int {
	unix.CloseOnExec(fdAlive)
	unix.CloseOnExec(fdLock)
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(fdAlive, "alive"))
		os.Exit(1) // the kernel ends everything else in here
	}()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p, err := readPlan(args[0])
	if err == nil {
		err = furnish(p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig: prepare namespaces:", err)
		return 1
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if p.Tests != nil {
		files = append(files, os.NewFile(fdQueue, "queue"))
	}
	child, err := os.StartProcess("/proc/self/exe", append([]string{os.Args[0], commandInside}, args...),
		&os.ProcAttr{Files: files})
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		return 1
	}
	go func() {
		for sig := range signals {
			_ = child.Signal(sig) // fails only when it has just ended
		}
	}()
	return reap(child.Pid)
}

// reap waits for processes that end in this namespace until child has ended. It returns child's exit code.
func reap(child int) int {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			fmt.Fprintln(os.Stderr, "rig: wait:", err)
			return 1
		case pid == child && status.Exited():
			return status.ExitStatus()
		case pid == child:
			return 128 + int(status.Signal())
		}
	}
}

// furnish sets up the mounts and the loopback device of the new namespaces. The machine's cgroups stay mounted unless
// the plan asks for cgroup v2 alone. All mounts are shared inside the rig, so that tests can check mount propagation.
// They are not shared with the machine.
func furnish(p plan) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := coverRun(); err != nil {
		return err
	}
	// host-local keeps its leases here unless its configuration names another directory.
	if err := cover("/var/lib/cni"); err != nil {
		return err
	}
	// Engines read certificates and mirrors of registries here, and tests write them.
	if err := cover("/etc/docker"); err != nil {
		return err
	}
	if p.CgroupV2 {
		if err := leaveCgroupV2(); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make / shared: %w", err)
	}
	return netdevice.RaiseLoopback()
}

// cgroupRoot is the mount point of cgroups.
const cgroupRoot = "/sys/fs/cgroup"

// leaveCgroupV2 unmounts all cgroup v1 hierarchies and mounts cgroup v2. Only the controllers that this machine has on
// v2 are available.
func leaveCgroupV2() error {
	if err := unix.Unmount(cgroupRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", cgroupRoot, err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("cgroup2", cgroupRoot, "cgroup2", flags, ""); err != nil {
		return fmt.Errorf("mount %s: %w", cgroupRoot, err)
	}
	return nil
}

// coverRun hides the machine's /run, which has its engine, its containerd and its named network namespaces. A
// resolv.conf that lives in there (as systemd-resolved's does) is kept.
func coverRun() error {
	resolv, err := filepath.EvalSymlinks("/etc/resolv.conf")
	keep := err == nil && strings.HasPrefix(resolv, "/run/")
	var content []byte
	if keep {
		if content, err = os.ReadFile(resolv); err != nil {
			return err
		}
	}
	if err := cover("/run"); err != nil {
		return err
	}
	if err := os.Mkdir("/run/netns", 0o755); err != nil {
		return err
	}
	if !keep {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(resolv), 0o755); err != nil {
		return err
	}
	return os.WriteFile(resolv, content, 0o644)
}

// cover mounts an empty directory over dir.
func cover(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mount over %s: %w", dir, err)
	}
	return nil
}
