package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Tests are those of a package that run inside the test rig, with a kubelet.
type Tests struct {
	// Package is theirs, "./test/cluster" for example.
	Package string
	// KubeletCore is where the kubelet core is built to.
	KubeletCore string
	// Environ is a variable of theirs, NAME=value, and Args are their arguments.
	Environ string
	Args    []string
}

// insideGrace is how long the half in the rig gets to clean up after an interrupt.
const insideGrace = time.Minute

// Run builds the rig, the kubelet core and the tests in dir and runs them, one run with a kubelet at a time. What the
// kubelet changes of the machine is put back.
func (t Tests) Run(ctx context.Context, dir string) (err error) {
	rig, test := filepath.Join(dir, "rig"), filepath.Join(dir, "inside.test")
	for _, args := range [][]string{
		{"build", "-o", rig, "./test/rig"},
		{"build", "-o", t.KubeletCore, "./cmd/kubelet-core"},
		{"test", "-c", "-o", test, t.Package},
	} {
		if output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	lock, err := lockMachine(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	// Before the kubelet runs, and by a process that outlives everything inside.
	restore, err := keepSysctls()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	return t.inside(ctx, rig, test)
}

// inside runs them. The terminal's interrupt reaches only this process, which passes it on once.
func (t Tests) inside(ctx context.Context, rig, test string) error {
	cmd := exec.CommandContext(ctx, rig, append([]string{"exec", test, "-test.v"}, t.Args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), t.Environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = insideGrace
	return cmd.Run()
}
