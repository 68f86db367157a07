package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/debian/machine"
)

// downTime bounds the time until a keeper has removed its cluster.
const downTime = 3 * time.Minute

// bringUp starts a keeper and follows it until its cluster is up.
func bringUp(ctx context.Context, o options) error {
	if err := os.MkdirAll(stateDir, 0o755); err != nil {
		return err
	}
	pid, err := keeperPID()
	if err != nil {
		return err
	}
	if pid != 0 {
		return errors.New("a cluster runs already; make cluster DOWN=1 removes it")
	}
	if err := removeLeft(); err != nil {
		return err
	}
	began := time.Now()
	p, err := prepare(ctx, o)
	if err != nil {
		return errors.Join(err, removeState(p.Dir))
	}
	fmt.Printf("ok   programs, packages and images made (%.1f s)\n", time.Since(began).Seconds())
	if err := startKeeper(ctx); err != nil {
		return err
	}
	if err := os.Symlink(p.Programs.Kubectl, kubectlFile); err != nil {
		return err
	}
	return nil
}

// startKeeper starts the keeper and prints the keeper's progress. The cluster is up once its kubeconfig is there.
func startKeeper(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer socket.Close()
	progress, lines, err := os.Pipe()
	if err != nil {
		return err
	}
	defer progress.Close()
	log, err := os.Create(logFile)
	if err != nil {
		return errors.Join(err, lines.Close())
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", "-"+keepFlag)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{socket, lines}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWNET}
	err = cmd.Start()
	if err = errors.Join(err, lines.Close()); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // fails only if the keeper ended
	defer stop()
	if _, err := io.Copy(os.Stdout, progress); err != nil {
		return err
	}
	if _, err := os.Stat(kubeconfigFile); err != nil {
		_ = cmd.Wait() // the keeper's log says how it ended
		return fmt.Errorf("the cluster did not come up: %s has more, and the nodes' logs are beside it", logFile)
	}
	return cmd.Process.Release()
}

// keeperPID returns the process id of the keeper that runs, or 0.
func keeperPID() (int, error) {
	file, err := os.Open(lockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	switch err := unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return 0, nil // no keeper holds it
	case !errors.Is(err, unix.EWOULDBLOCK):
		return 0, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// takeDown ends the keeper, which removes its cluster, and waits for it. It removes what a killed keeper has left.
func takeDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, downTime)
	defer cancel()
	pid, err := keeperPID()
	if err != nil {
		return err
	}
	if pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	if err := debian.Wait(ctx, func() error {
		pid, err := keeperPID()
		if err == nil && pid != 0 {
			err = fmt.Errorf("process %d, the keeper of the cluster, has not ended", pid)
		}
		return err
	}); err != nil {
		return err
	}
	return removeLeft()
}

// removeLeft removes what a killed keeper has left. The kernel has ended the processes of its machines.
func removeLeft() error {
	p, err := readPlan()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range p.nodes() {
		errs = append(errs, machine.Remove(p.machineDir(n.name)))
	}
	return errors.Join(append(errs, removeState(p.Dir))...)
}

// welcome prints the commands to use the cluster and to remove it.
func welcome() error {
	machines, err := runningNodes()
	if err != nil {
		return err
	}
	fmt.Printf(`
The cluster runs. Talk to it:
  export KUBECONFIG=$PWD/%s
  %s get nodes --output wide
Its images come from %s: test/hello:latest is a web server on port 8080, test/busybox:latest a shell.
  %[2]s run hello --image %[3]s/test/hello:latest
A shell on a node, with crictl and docker:
`, kubeconfigFile, kubectlFile, registryAddress)
	for _, name := range []string{"node1", "node2"} {
		fmt.Printf("  nsenter --target %d --all --root --wd bash   # %s\n", machines[name].PID(), name)
	}
	fmt.Println("make cluster DOWN=1 removes it.")
	return nil
}
