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

// behind returns the engine's process id. peer is the process that listens on the engine's socket. It may have passed
// the socket on, as systemd does (docker.socket). Then behind returns the dockerd that has the socket open, or peer if
// there is none in proc.
func behind(proc string, peer int, socket string) int {
	if isDockerd(filepath.Join(proc, strconv.Itoa(peer))) {
		return peer
	}
	links := socketLinks(proc, socket)
	names, _ := filepath.Glob(filepath.Join(proc, "[0-9]*")) // the pattern is good
	for _, dir := range names {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && isDockerd(dir) && hasOpen(dir, links) {
			return pid
		}
	}
	return peer
}

// socketLinks returns the link targets in /proc/PID/fd by which a process that listens at socket is recognized.
func socketLinks(proc, socket string) map[string]bool {
	links := map[string]bool{}
	want, err := os.Stat(socket)
	if err != nil {
		return links
	}
	for link, path := range proctable.Sockets(proc) {
		if bound, err := os.Stat(path); err == nil && os.SameFile(bound, want) {
			links[link] = true
		}
	}
	return links
}

func hasOpen(dir string, links map[string]bool) bool {
	return slices.ContainsFunc(proctable.OpenFiles(dir), func(link string) bool { return links[link] })
}
