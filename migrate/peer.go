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

// shim is a running cri-dockerd or dockershim. The zero value is none.
type shim struct {
	name string
	pid  int
}

// runs says in a sentence that the shim runs.
func (s shim) runs() string { return fmt.Sprintf("%s runs on this engine (process %d)", s.name, s.pid) }

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
	for link, name := range n.innerSockets() {
		if pid := holder(link); pid != 0 {
			return shim{name: name, pid: pid}
		}
	}
	return shim{}
}

// innerShims are shims within other programs, by their sockets: the cri-dockerd of k3s --docker, and the dockershim of
// a kubelet before 1.24.
func innerShims() map[string]string {
	return map[string]string{
		"/run/k3s/cri-dockerd/cri-dockerd.sock": "k3s --docker",
		"/run/dockershim.sock":                  "dockershim",
	}
}

// innerSockets returns the names of the innerShims that have a socket, by the socket's link in /proc/PID/fd.
func (n *Node) innerSockets() map[string]string {
	table, _ := os.ReadFile("/proc/net/unix") // a kernel without the table shows none
	names := map[string]string{}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line) // Num RefCount Protocol Flags Type St Inode Path
		if len(fields) != 8 {
			continue
		}
		path := fields[7]
		if below, found := strings.CutPrefix(path, "/var/run/"); found {
			path = "/run/" + below
		}
		if name, found := n.opts.innerShims[path]; found {
			names["socket:["+fields[6]+"]"] = name
		}
	}
	return names
}

// holder returns a process that has a socket open, 0 for none. It leaves out systemd, which holds the sockets of its
// units, and this program, which may have the socket of a shim that it replaces.
func holder(link string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, file := range files {
		if target, err := os.Readlink(file); err != nil || target != link {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(file, "/")[2]) // by the pattern
		if pid != 1 && pid != os.Getpid() {
			return pid
		}
	}
	return 0
}

// criDockerd returns the process of a cri-dockerd on our engine, 0 for none.
func (n *Node) criDockerd() int {
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
