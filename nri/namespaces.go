package nri

import (
	"fmt"
	"path"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/state"
)

// cgroupsPath is the cgroup of a container as the engine writes it into the OCI configuration: SLICE:docker:ID with
// systemd's driver, and a path with cgroupfs. It is empty if the engine chooses the parent.
func cgroupsPath(id, parent string) string {
	switch {
	case parent == "":
		return ""
	case strings.HasSuffix(parent, ".slice") && !strings.Contains(parent, "/"):
		return parent + ":docker:" + id
	default:
		return path.Join(parent, id)
	}
}

// describeNamespaces describes the namespaces in a container's OCI configuration. A namespace that the container joins
// has a path, and a namespace of its own has none. Namespaces of the node are left out, and so are namespaces of
// unknown path.
func describeNamespaces(snapshot *state.Snapshot, pod *state.Pod, host *container.HostConfig) []*api.LinuxNamespace {
	all := []*api.LinuxNamespace{{Type: "mount"}}
	own := func(kind string) { all = append(all, &api.LinuxNamespace{Type: kind}) }
	join := func(kind, path string) {
		if path != "" {
			all = append(all, &api.LinuxNamespace{Type: kind, Path: path})
		}
	}
	byMode := func(kind, mode string) {
		switch owner, joins := strings.CutPrefix(mode, "container:"); {
		case joins:
			join(kind, processNamespace(processOf(snapshot, owner), kind))
		case mode != "host":
			own(kind)
		}
	}
	byMode("pid", string(host.PidMode))
	if host.CgroupnsMode.IsPrivate() {
		own("cgroup")
	}
	if pod == nil {
		byMode("ipc", string(host.IpcMode))
		return all
	}
	held := pod.Status.Namespaces // nil for a pod with a sandbox container
	if held != nil && held.IPC != "" && host.IpcMode.IsNone() {
		join("ipc", held.IPC)
	} else {
		byMode("ipc", string(host.IpcMode))
	}
	if held != nil && held.UTS != "" {
		join("uts", held.UTS)
	} else {
		byMode("uts", string(host.UTSMode))
	}
	switch {
	case pod.Meta.HostNetwork:
	case pod.Status.NetnsPath != "":
		join("network", pod.Status.NetnsPath)
	default:
		join("network", processNamespace(pod.Status.PID, "net"))
	}
	join("user", pod.Status.UserNamespace)
	return all
}

// processOf returns the process of a container or of a sandbox container, 0 if it has ended.
func processOf(snapshot *state.Snapshot, id string) int {
	if pod, err := snapshot.Pod(id); err == nil {
		return pod.Status.PID
	}
	if c, err := snapshot.Container(id); err == nil {
		return c.Status.PID
	}
	return 0
}

// processNamespace returns the path of a namespace of a process, empty without a process.
func processNamespace(pid int, kind string) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf("/proc/%d/ns/%s", pid, kind)
}
