package docker

import (
	"os"
	"path/filepath"
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
	for _, pid := range proctable.Holders(proc, socket) {
		if isDockerd(filepath.Join(proc, strconv.Itoa(pid))) {
			return pid
		}
	}
	return peer
}
