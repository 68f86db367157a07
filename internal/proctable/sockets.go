package proctable

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Sockets returns the paths of the unix sockets in proc's network namespace, by the socket's link in /proc/PID/fd. proc
// is a mount of the proc file system, or the directory of a process in it. The path of a socket without a name is
// empty. A kernel without the table shows no sockets.
func Sockets(proc string) map[string]string {
	paths := map[string]string{}
	table, _ := os.ReadFile(filepath.Join(proc, "net", "unix"))
	for line := range bytes.Lines(table) {
		fields := strings.Fields(string(line)) // Num RefCount Protocol Flags Type St Inode Path
		if len(fields) > 6 {
			paths["socket:["+fields[6]+"]"] = strings.Join(fields[7:], " ")
		}
	}
	return paths
}

// Holders returns the processes that have the unix socket at path open, in the lexical order of their ids. proc is a
// mount of the proc file system. A caller other than root sees its own processes only.
func Holders(proc, path string) []int {
	links := map[string]bool{}
	want, err := os.Stat(path)
	for link, at := range Sockets(proc) {
		if at == path {
			links[link] = true
		} else if bound, statErr := os.Stat(at); err == nil && statErr == nil && os.SameFile(bound, want) {
			links[link] = true
		}
	}
	if len(links) == 0 {
		return nil
	}
	return Select(proc, func(dir string) bool {
		return slices.ContainsFunc(OpenFiles(dir), func(link string) bool { return links[link] })
	})
}

// Select returns the processes that match, in the lexical order of their ids. proc is a mount of the proc file system.
// match gets the directory of a process in it, which may have ended.
func Select(proc string, match func(dir string) bool) (pids []int) {
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*")) // the pattern is valid
	for _, dir := range processes {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && match(dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// OnlySystemd reports whether systemd, and no other process, has the unix socket at path open. A connection would then
// make systemd start a service. The result is false for a caller other than root.
func OnlySystemd(proc, path string) bool {
	name, _ := os.ReadFile(filepath.Join(proc, "1", "comm")) // a process with an unreadable name is not systemd
	return string(bytes.TrimSpace(name)) == "systemd" && slices.Equal(Holders(proc, path), []int{1})
}

// OpenFiles returns the link targets of the files that a process has open. dir is its directory in a proc file system.
// A process that has ended has none.
func OpenFiles(dir string) []string {
	var links []string
	files, _ := os.ReadDir(filepath.Join(dir, "fd"))
	for _, file := range files {
		if link, err := os.Readlink(filepath.Join(dir, "fd", file.Name())); err == nil {
			links = append(links, link)
		}
	}
	return links
}
