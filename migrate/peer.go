package migrate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
)

// The program of cri-dockerd v0.4.3, its flag for the engine's address, and the flag's default.
const (
	peerProgram      = "cri-dockerd"
	peerEndpointFlag = "--docker-endpoint"
	peerEndpoint     = "unix:///var/run/docker.sock"
)

// errPeer says that a cri-dockerd still runs.
func errPeer(pid int) error {
	return fmt.Errorf("cri-dockerd runs on this engine (process %d): stop the kubelet and cri-dockerd first: %w",
		pid, errdefs.ErrUnavailable)
}

// peer returns the process of a cri-dockerd on our engine, 0 for none. It reads the list of processes, because a
// connection to systemd's socket would start cri-dockerd.
func (n *Node) peer() int {
	programs, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, program := range programs {
		// exe names the program's file, even if criadapter was started by a link with cri-dockerd's name.
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

// drives reports whether cri-dockerd with these arguments uses the engine at that address.
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

// socketOf returns the socket's path without symbolic links, since /var/run and /run are usually one directory.
func socketOf(endpoint string) string {
	path := strings.TrimPrefix(endpoint, "unix://")
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}
