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

// Run builds the kubelet core and the tests in dir and runs them as InRig does.
func (t Tests) Run(ctx context.Context, dir string) error {
	test := filepath.Join(dir, "inside.test")
	if err := goCommands(ctx, []string{"build", "-o", t.KubeletCore, "./cmd/kubelet-core"}, []string{"test", "-c", "-o", test, t.Package}); err != nil {
		return err
	}
	return InRig(ctx, dir, t.Environ, append([]string{test, "-test.v"}, t.Args...)...)
}

func goCommands(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output)
		}
	}
	return nil
}

// AgainInRig runs this program again as InRig does, with these arguments. environ makes the variable; what it builds goes
// into the directory that it is given, which is removed in the end.
func AgainInRig(ctx context.Context, environ func(dir string) (string, error), args ...string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "criadapter-"+filepath.Base(self)+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	variable, err := environ(dir)
	if err != nil {
		return err
	}
	return InRig(ctx, dir, variable, append([]string{self}, args...)...)
}

// InRig builds the rig in dir and runs a command in it that runs a kubelet, with one more variable of the environment,
// NAME=value. What the kubelet changes of the machine is put back when the last of all such runs ends.
func InRig(ctx context.Context, dir, environ string, command ...string) (err error) {
	rig := filepath.Join(dir, "rig")
	if err := goCommands(ctx, []string{"build", "-o", rig, "./test/rig"}); err != nil {
		return err
	}
	// Before the kubelet runs, and by a process that outlives everything inside.
	stay, err := enterMachine(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stay.leave()) }()
	return inside(ctx, rig, environ, command)
}

// inside runs a command. The terminal's interrupt reaches only this process, which passes it on once.
func inside(ctx context.Context, rig, environ string, command []string) error {
	cmd := exec.CommandContext(ctx, rig, append([]string{"exec"}, command...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = insideGrace
	return cmd.Run()
}
