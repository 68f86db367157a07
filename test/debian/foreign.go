package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/images"
)

// formats is the kernel's directory of program formats. Each names the interpreter for its programs, such as QEMU.
const formats = "/proc/sys/fs/binfmt_misc"

// interpreters are QEMU's names of architectures, by the values of GOARCH.
var interpreters = map[string]string{"arm64": "qemu-aarch64"}

// Emulate has the kernel run programs of an architecture, a value of GOARCH, until end is called. It changes nothing on
// a host that runs them anyway.
func Emulate(ctx context.Context, architecture string) (end func() error, err error) {
	nothing := func() error { return nil }
	if architecture == runtime.GOARCH {
		return nothing, nil
	}
	name, known := interpreters[architecture]
	if !known {
		return nil, fmt.Errorf("no interpreter for programs of %s", architecture)
	}
	if _, err := os.Stat(filepath.Join(formats, name)); err == nil {
		return nothing, nil
	}
	tools := []images.Tool{{Program: name + "-static", Package: "qemu-user-static"},
		{Program: "update-binfmts", Package: "binfmt-support"}}
	if err := images.Packages(ctx, tools...); err != nil {
		return nil, err
	}
	unmount := nothing
	if _, err := os.Stat(filepath.Join(formats, "register")); err != nil {
		if err := syscall.Mount("binfmt_misc", formats, "binfmt_misc", 0, ""); err != nil {
			return nil, os.NewSyscallError("mount "+formats, err)
		}
		unmount = func() error { return os.NewSyscallError("unmount "+formats, syscall.Unmount(formats, 0)) }
	}
	if err := updateFormats(ctx, "--enable", name); err != nil {
		return nil, errors.Join(err, unmount())
	}
	return func() error {
		return errors.Join(updateFormats(context.WithoutCancel(ctx), "--disable", name), unmount())
	}, nil
}

func updateFormats(ctx context.Context, action, name string) error {
	update, err := images.FindTool("update-binfmts")
	if err != nil {
		return err
	}
	_, err = program.Output(ctx, "", nil, update, action, name)
	return err
}
