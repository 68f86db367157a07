package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// checkAppended fails with ErrFailedPrecondition unless the engine's process has a running container's log open, and
// writes only at its end. After its own rotation the engine writes at an offset, and would go on at that offset in an
// emptied log. A process that does not have the log open is a proxy in front of the engine, and does not show how the
// engine writes. checkAppended fails with ErrUnavailable if the process is not visible.
func checkAppended(process int, enginePath string) error {
	proc := filepath.Join("/proc", strconv.Itoa(process))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the engine's process %d is not visible: it has ended, or criadapter needs the node's PID "+
			"namespace (--pid=host): %w", process, errdefs.ErrUnavailable)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("the open files of the engine's process cannot be read, criadapter needs CAP_SYS_PTRACE: "+
			"%w: %w", err, errdefs.ErrFailedPrecondition)
	}
	if err != nil {
		return fmt.Errorf("reading the engine's open files: %w", err)
	}
	appended := false
	for _, file := range files {
		if path, err := os.Readlink(filepath.Join(proc, "fd", file.Name())); err != nil || path != enginePath {
			continue // another file, or a descriptor that was closed meanwhile
		}
		info, err := os.ReadFile(filepath.Join(proc, "fdinfo", file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the engine's open files: %w", err)
		}
		flags := openFlags(string(info))
		if flags&unix.O_ACCMODE == unix.O_RDONLY {
			continue
		}
		if flags&unix.O_APPEND == 0 {
			return fmt.Errorf("the engine rotates the log %s itself, by its max-size: %w", enginePath,
				errdefs.ErrFailedPrecondition)
		}
		appended = true
	}
	if !appended {
		return fmt.Errorf("process %d at the engine's socket does not have the log %s open: the container has ended, "+
			"or the process is a proxy and criadapter needs the engine's own socket: %w", process, enginePath,
			errdefs.ErrFailedPrecondition)
	}
	return nil
}

// openFlags returns the flags in a file of /proc/PID/fdinfo, see proc(5). Without any, the file is taken for read-only.
func openFlags(info string) int {
	for line := range strings.Lines(info) {
		if text, found := strings.CutPrefix(line, "flags:"); found {
			flags, _ := strconv.ParseInt(strings.TrimSpace(text), 8, 64) // the kernel writes octal digits
			return int(flags)
		}
	}
	return unix.O_RDONLY
}
