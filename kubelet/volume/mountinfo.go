package volume

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountTable is where the kernel lists the mounts that this process sees, proc(5).
const mountTable = "/proc/self/mountinfo"

// mountPoints returns where something is mounted at or below path, in the order of mounting. A path that does not exist
// has none.
func mountPoints(path string) ([]string, error) {
	real, err := filepath.EvalSymlinks(path) // the kernel lists real paths
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if real, err = filepath.Abs(real); err != nil {
		return nil, err
	}
	table, err := os.ReadFile(mountTable)
	if err != nil {
		return nil, err
	}
	var points []string
	for _, point := range parseMountTable(table) {
		if point == real || strings.HasPrefix(point, real+"/") {
			points = append(points, point)
		}
	}
	return points, nil
}

// parseMountTable returns the fifth field of each line, the mount point.
func parseMountTable(table []byte) []string {
	var points []string
	lines := bufio.NewScanner(bytes.NewReader(table))
	lines.Buffer(nil, len(table)+1)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 {
			points = append(points, unescape(fields[4]))
		}
	}
	return points
}

// unescape turns \040 and the like back: the kernel writes space, tab, newline and backslash so.
func unescape(field string) string {
	var out strings.Builder
	for i := 0; i < len(field); i++ {
		if field[i] == '\\' && i+3 < len(field) {
			if char, err := strconv.ParseUint(field[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(char))
				i += 3
				continue
			}
		}
		out.WriteByte(field[i])
	}
	return out.String()
}

// isMountPoint says whether something is mounted at path itself.
func isMountPoint(path string) (bool, error) {
	points, err := mountPoints(path)
	if err != nil || len(points) == 0 {
		return false, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	return slices.Contains(points, real), nil
}

// unmountBelow unmounts everything at and below path, the newest first. When it returns without an error, nothing below
// path belongs to another file system, so the tree may be removed. Mounts go even while they are in use: a process that
// still holds one keeps it to itself.
func unmountBelow(path string) error {
	points, err := mountPoints(path)
	if err != nil {
		return err
	}
	for _, point := range slices.Backward(points) {
		err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "unmount", Path: point, Err: err}
		}
	}
	left, err := mountPoints(path)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s is still mounted", strings.Join(left, ", "))
	}
	return err
}
