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

// checkAppended fails with ErrFailedPrecondition if a process, the engine, writes a log elsewhere than at its end. Such
// a log must not be emptied: the engine would go on at its old offset. The engine opens a log so after its own
// rotation.
func checkAppended(process int, enginePath string) error {
	proc := filepath.Join("/proc", strconv.Itoa(process))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return fmt.Errorf("looking at the engine's files: %w", err)
	}
	for _, file := range files {
		if path, err := os.Readlink(filepath.Join(proc, "fd", file.Name())); err != nil || path != enginePath {
			continue // another file, or it was closed meanwhile
		}
		info, err := os.ReadFile(filepath.Join(proc, "fdinfo", file.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("looking at the engine's files: %w", err)
		}
		if flags := openFlags(string(info)); flags&unix.O_ACCMODE != unix.O_RDONLY && flags&unix.O_APPEND == 0 {
			return fmt.Errorf("the engine rotates the log %s itself, by its max-size: %w", enginePath,
				errdefs.ErrFailedPrecondition)
		}
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
