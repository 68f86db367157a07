package machine

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/criadapter/criadapter/test/program"
)

// RunTests builds the tests of a package and the kubelet core, and runs the tests inside the test rig with these
// arguments. environ gets the path of the kubelet core and returns a variable for the tests, NAME=value. The sysctls
// that a kubelet changes are restored when the last run with a kubelet ends.
func RunTests(ctx context.Context, pkg string, environ func(kubeletCore string) (string, error), args ...string) error {
	return program.InDir(func(dir string) error {
		kubeletCore, test := filepath.Join(dir, "kubelet-core"), filepath.Join(dir, "inside.test")
		variable, err := environ(kubeletCore)
		if err != nil {
			return err
		}
		if err := program.Go(ctx, "build", "-o", kubeletCore, "./cmd/kubelet-core"); err != nil {
			return err
		}
		if err := program.Go(ctx, "test", "-c", "-o", test, pkg); err != nil {
			return err
		}
		rig, err := program.BuildRig(ctx, dir)
		if err != nil {
			return err
		}
		command := append([]string{test, "-test.v"}, args...)
		return Guarded(ctx, func() error { return rig.Exec(ctx, variable, command...) })
	})
}

// AgainInRig is program.Again for a program that runs a kubelet. The sysctls that the kubelet changes are restored when
// the last run with a kubelet ends.
func AgainInRig(ctx context.Context, environ func(dir string) (string, error), args ...string) error {
	return Guarded(ctx, func() error { return program.Again(ctx, environ, args...) })
}

// Guarded calls run, which runs a kubelet. This process outlives the rig, so it can restore the sysctls.
func Guarded(ctx context.Context, run func() error) (err error) {
	stay, err := enterMachine(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stay.leave()) }()
	return run()
}
