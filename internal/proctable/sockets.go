package proctable

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// Sockets returns the paths of the unix sockets in proc's network namespace, by the socket's link in /proc/PID/fd. proc
// is a directory of the proc file system: a mount of it, or a process's. The path of a socket without a name is empty. A
// kernel without the table shows no sockets.
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
