package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/criadapter/criadapter/internal/proctable"
)

// dockerdName is the kernel's name for the engine's process.
const dockerdName = "dockerd"

func isDockerd(dir string) bool {
	name, err := os.ReadFile(filepath.Join(dir, "comm"))
	return err == nil && strings.TrimSpace(string(name)) == dockerdName
}

// enginePID returns the engine's process id. peer is the process that listens on the engine's socket. That process may
// have passed the socket on, as systemd does (docker.socket). Then enginePID returns the dockerd that has the socket
// open. peer may also be a proxy. Then enginePID returns the dockerd that uses the engine's data root. Without such a
// dockerd in proc, it returns peer.
func enginePID(proc string, peer int, socket, root string) int {
	if isDockerd(filepath.Join(proc, strconv.Itoa(peer))) {
		return peer
	}
	for _, pid := range proctable.Holders(proc, socket) {
		if isDockerd(filepath.Join(proc, strconv.Itoa(pid))) {
			return pid
		}
	}
	if pids := rootUsers(proc, root); len(pids) > 0 {
		return pids[0]
	}
	return peer
}

// rootUsers returns each dockerd that uses a data root. An engine keeps the list of its volumes open, and locks it
// against other engines (volume/service/store.go in moby).
func rootUsers(proc, root string) []int {
	list, err := os.Stat(filepath.Join(root, "volumes", "metadata.db"))
	if err != nil {
		return nil
	}
	return proctable.Select(proc, func(dir string) bool { return isDockerd(dir) && hasOpen(dir, list) })
}

// hasOpen reports whether a process has a file open. dir is its directory in a proc file system.
func hasOpen(dir string, want os.FileInfo) bool {
	files, _ := os.ReadDir(filepath.Join(dir, "fd")) // a process that has ended has none
	return slices.ContainsFunc(files, func(file os.DirEntry) bool {
		info, err := os.Stat(filepath.Join(dir, "fd", file.Name()))
		return err == nil && os.SameFile(info, want)
	})
}
