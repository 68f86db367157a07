package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// capSysResource is the number of CAP_SYS_RESOURCE in linux/capability.h. This capability allows a process to lower an
// oom_score_adj.
const capSysResource = 24

func socketPath(host string) string {
	_, path, _ := strings.Cut(host, "://")
	return path
}

// readPeer returns the id of the process that listens on the unix socket of host: dockerd, or systemd if it has passed
// the socket on. It returns 0 for a process outside of our PID namespace.
func readPeer(ctx context.Context, host string) (int, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socketPath(host))
	if err != nil {
		return 0, fmt.Errorf("%w; check that Docker Engine runs and that this is its socket", err)
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, os.NewSyscallError("getsockopt SO_PEERCRED", credErr)
	}
	return int(cred.Pid), nil
}

// witness returns the directory in /proc that shows the engine's permissions. If no dockerd is visible, for example
// because its program has another name, witness returns the directory of our own process as the best approximation.
func witness(proc string, peer int) string {
	dir := filepath.Join(proc, strconv.Itoa(peer))
	if !isDockerd(dir) {
		return filepath.Join(proc, "self")
	}
	return dir
}

// canLowerOOMScore reports whether containers can get a negative oom_score_adj. The process of dir needs
// CAP_SYS_RESOURCE in the initial user namespace. Unreadable facts count as yes, so that a working engine is not
// degraded.
func canLowerOOMScore(dir string) bool {
	if inUserNamespace(dir) {
		return false
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return true
	}
	return hasCapability(string(status), capSysResource)
}

// inUserNamespace reports whether the process of dir is in another user namespace than the kernel's first one. A node
// that is a system container (LXC) has such a namespace. It returns false if the namespace cannot be read.
func inUserNamespace(dir string) bool {
	uidMap, err := os.ReadFile(filepath.Join(dir, "uid_map"))
	return err == nil && !slices.Equal(strings.Fields(string(uidMap)), []string{"0", "0", "4294967295"})
}

// hasCapability looks a capability up in the text of /proc/PID/status. It returns true if the text does not show
// capabilities.
func hasCapability(status string, number uint) bool {
	mask, found := statusField(status, "CapEff")
	if !found {
		return true
	}
	bits, err := strconv.ParseUint(mask, 16, 64)
	return err != nil || bits&(1<<number) != 0
}

// statusField returns one line's value of the text of /proc/PID/status.
func statusField(status, name string) (string, bool) {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}
