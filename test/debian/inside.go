package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/criadapter/criadapter/test/program"
)

// Inside runs lines of a shell script (see Script) in a root file system, where it mounts /proc for that time.
func Inside(ctx context.Context, root, lines string) (err error) {
	proc := filepath.Join(root, "proc")
	if err := syscall.Mount("proc", proc, "proc", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", proc, err)
	}
	defer func() { err = errors.Join(err, os.NewSyscallError("unmount "+proc, syscall.Unmount(proc, 0))) }()
	_, err = program.Output(ctx, "", nil, "chroot", append([]string{root}, Script(lines)...)...)
	return err
}
