package migrate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// The flags of cri-dockerd v0.4.3 that say which engine it drives.
const (
	peerProgram      = "cri-dockerd"
	peerEndpointFlag = "--docker-endpoint"
	peerEndpoint     = "unix:///var/run/docker.sock"
)

// errPeer is the error of what cannot be done while a cri-dockerd runs.
func errPeer(pid int) error {
	return fmt.Errorf("cri-dockerd runs on this engine (process %d): stop the kubelet and it first: %w", pid, errdefs.ErrFailedPrecondition)
}

// peer returns the process of a cri-dockerd that drives our engine, 0 for none. It looks at the processes, because to
// connect to a socket that systemd listens on would start it.
func (n *Node) peer() int {
	programs, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, program := range programs {
		// Where criadapter bears its name, by a link, the kernel still tells the file.
		target, err := os.Readlink(program)
		if err != nil || strings.TrimSuffix(filepath.Base(target), " (deleted)") != peerProgram {
			continue
		}
		commandLine, err := os.ReadFile(filepath.Join(filepath.Dir(program), "cmdline"))
		if err != nil {
			continue
		}
		if drives(strings.Split(string(commandLine), "\x00"), n.opts.DockerEndpoint) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(program))) // by the pattern
			return pid
		}
	}
	return 0
}

// drives reports whether cri-dockerd with these arguments drives the engine of that address.
func drives(args []string, endpoint string) bool {
	driven := peerEndpoint
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, peerEndpointFlag+"="); found {
			driven = value
		} else if arg == peerEndpointFlag && i+1 < len(args) {
			driven = args[i+1]
		}
	}
	return socketOf(driven) == socketOf(endpoint)
}

// socketOf makes one path of the two that every node has for /run.
func socketOf(endpoint string) string {
	path := strings.TrimPrefix(endpoint, "unix://")
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}
