package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// generation is one of the engine's log files of a container. The engine writes to number 0 (container.log). A rotation
// renames N to N+1 (container.log.1 and so on), drops the highest, and makes a new number 0.
type generation struct {
	number int
	inode  uint64
}

// listAttempts bounds how often openGeneration lists the files again because of a rotation. Few attempts are enough:
// the engine writes a whole file between two rotations.
const listAttempts = 10

// errRotating says that each list was overtaken by a rotation.
var errRotating = errors.New("the engine rotates its log files faster than they can be listed")

// generations lists the engine's existing log files, newest first. A missing directory has no files. A rotation during
// the listing may make the list wrong.
func generations(path string) ([]generation, error) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(dir)
	if ignoreNotExist(err) != nil {
		return nil, fmt.Errorf("reading the directory of the engine's log: %w", err)
	}
	var list []generation
	for _, e := range entries {
		number, ok := generationNumber(e.Name(), base)
		if !ok {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // renamed or dropped meanwhile
		}
		if info.Mode().IsRegular() {
			list = append(list, generation{number: number, inode: inodeOf(info)})
		}
	}
	slices.SortFunc(list, func(a, b generation) int { return a.number - b.number })
	return list, nil
}

// generationNumber returns 0 for base and N for base.N. It returns false for other files, such as compressed
// generations.
func generationNumber(name, base string) (int, bool) {
	if name == base {
		return 0, true
	}
	suffix, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(suffix)
	if err != nil || n < 1 || strconv.Itoa(n) != suffix {
		return 0, false
	}
	return n, true
}

// openGeneration opens the generation that choose picks from a list, and returns nil if choose picks none. It returns a
// file only if two lists in a row are equal: a rotation changes the file of number 0, which is listed first, so no
// rotation made the first list wrong.
func openGeneration(path string, choose func([]generation) *generation) (*os.File, generation, error) {
	for range listAttempts {
		list, err := generations(path)
		if err != nil {
			return nil, generation{}, err
		}
		chosen := choose(list)
		if chosen == nil {
			return nil, generation{}, nil
		}
		file, err := os.Open(generationPath(path, chosen.number))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, generation{}, fmt.Errorf("opening the engine's log: %w", err)
		}
		if again, err := generations(path); err == nil && slices.Equal(list, again) && isFile(file, chosen.inode) {
			return file, *chosen, nil
		}
		file.Close()
	}
	return nil, generation{}, errRotating
}

func generationPath(path string, number int) string {
	if number == 0 {
		return path
	}
	return path + "." + strconv.Itoa(number)
}

// oldest picks the oldest generation.
func oldest(list []generation) *generation {
	if len(list) == 0 {
		return nil
	}
	return &list[len(list)-1]
}

// withInode picks the generation with that inode.
func withInode(inode uint64) func([]generation) *generation {
	return func(list []generation) *generation {
		if i := indexOf(list, inode); i >= 0 {
			return &list[i]
		}
		return nil
	}
}

// nextGeneration picks the generation that follows the one with inode. If the newest generation has inode, it picks
// none. If no generation has inode, it picks the oldest. The caller holds the file with inode open, so no other file
// can have its inode.
func nextGeneration(inode uint64) func([]generation) *generation {
	return func(list []generation) *generation {
		switch i := indexOf(list, inode); i {
		case -1:
			return oldest(list)
		case 0:
			return nil
		default:
			return &list[i-1]
		}
	}
}

func indexOf(list []generation, inode uint64) int {
	return slices.IndexFunc(list, func(g generation) bool { return g.inode == inode })
}

func isFile(file *os.File, inode uint64) bool {
	info, err := file.Stat()
	return err == nil && inodeOf(info) == inode
}

// inodeOf returns the inode number of a file on Linux.
func inodeOf(info fs.FileInfo) uint64 {
	return info.Sys().(*syscall.Stat_t).Ino
}

// bornAt returns the creation time of a file in nanoseconds since 1970, 0 if the file system does not record it.
func bornAt(file *os.File) int64 {
	var stat unix.Statx_t
	err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &stat)
	if err != nil || stat.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return time.Unix(stat.Btime.Sec, int64(stat.Btime.Nsec)).UnixNano()
}
