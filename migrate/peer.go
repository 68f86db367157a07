package migrate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/proctable"
)

// The program of cri-dockerd v0.4.3, its flag for the engine's address, and the flag's default.
const (
	peerProgram      = "cri-dockerd"
	peerEndpointFlag = "--docker-endpoint"
	peerEndpoint     = "unix:///var/run/docker.sock"
)

// shim is a running cri-dockerd or dockershim. The zero value is none.
type shim struct {
	name string
	pid  int
}

// runs returns a sentence that says where the shim runs.
func (s shim) runs() string {
	return fmt.Sprintf("%s runs on this machine (process %d)", s.name, s.pid)
}

// errPeer says that a shim still runs.
func errPeer(peer shim) error {
	return fmt.Errorf("%s: stop the kubelet and %s first: %w", peer.runs(), peer.name, errdefs.ErrUnavailable)
}

// peer returns a cri-dockerd on our engine, or a shim within another program, whose engine is not known. It reads the
// kernel's lists of processes and sockets, because a connection to systemd's socket would start cri-dockerd.
func (n *Node) peer() shim {
	if pid := n.criDockerd(); pid != 0 {
		return shim{name: peerProgram, pid: pid}
	}
	return n.innerShim()
}

// innerShims are shims within other programs, by their sockets: the cri-dockerd of k3s --docker, and the dockershim of
// a kubelet before 1.24.
func innerShims() map[string]string {
	return map[string]string{
		"/run/k3s/cri-dockerd/cri-dockerd.sock": "k3s --docker",
		"/run/dockershim.sock":                  "dockershim",
	}
}

// innerShim returns a shim within another program. It leaves out systemd, which holds the sockets of its units, and
// this program, which may have the socket of a shim that it replaces.
func (n *Node) innerShim() shim {
	for path, name := range n.opts.innerShims {
		for _, pid := range proctable.Holders("/proc", path) {
			if pid != 1 && pid != os.Getpid() {
				return shim{name: name, pid: pid}
			}
		}
	}
	return shim{}
}

// criDockerd returns the process of a cri-dockerd on our engine, 0 for none.
func (n *Node) criDockerd() int {
	programs, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid
	for _, program := range programs {
		// exe leads to the executable file itself. So it does not show a link named cri-dockerd by which criadapter was
		// started.
		target, err := os.Readlink(program)
		if err != nil || strings.TrimSuffix(filepath.Base(target), " (deleted)") != peerProgram {
			continue
		}
		commandLine, err := os.ReadFile(filepath.Join(filepath.Dir(program), "cmdline"))
		if err != nil {
			continue
		}
		used := engineOf(strings.Split(string(commandLine), "\x00"))
		if drives(filepath.Join(filepath.Dir(program), "root"), used, n.opts.DockerEndpoint) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(program))) // by the pattern
			return pid
		}
	}
	return 0
}

// engineOf returns the address of the engine that cri-dockerd with these arguments uses.
func engineOf(args []string) string {
	endpoint := peerEndpoint
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, peerEndpointFlag+"="); found {
			endpoint = value
		} else if arg == peerEndpointFlag && i+1 < len(args) {
			endpoint = args[i+1]
		}
	}
	return endpoint
}

// drives reports whether a cri-dockerd uses our engine, which is at endpoint. used is the address that cri-dockerd has
// for its engine. root is the root directory of cri-dockerd's process. In a container, the same path may be the socket
// of another engine.
func drives(root, used, endpoint string) bool {
	if socketOf(used) != socketOf(endpoint) {
		return false
	}
	path := strings.TrimPrefix(used, "unix://")
	if below, found := strings.CutPrefix(path, "/var/run/"); found {
		path = "/run/" + below // an absolute link below root would lead to our files
	}
	theirs, err := os.Stat(filepath.Join(root, path))
	if err != nil {
		return true
	}
	ours, err := os.Stat(socketOf(endpoint))
	return err != nil || os.SameFile(ours, theirs)
}

// socketOf returns the socket's path without symbolic links, since /var/run and /run are usually one directory.
func socketOf(endpoint string) string {
	path := strings.TrimPrefix(endpoint, "unix://")
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		return resolved
	}
	return path
}
