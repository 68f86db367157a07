package server

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// runtimeSpec is the part of an OCI runtime specification that is known without a call to the engine.
type runtimeSpec struct {
	Hostname    string            `json:"hostname,omitempty"`
	Process     *specProcess      `json:"process,omitempty"`
	Mounts      []specMount       `json:"mounts,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Linux       specLinux         `json:"linux"`
}

type specProcess struct {
	Terminal bool     `json:"terminal,omitempty"`
	Args     []string `json:"args,omitempty"`
	Env      []string `json:"env,omitempty"`
	Cwd      string   `json:"cwd,omitempty"`
}

type specMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options"`
}

type specLinux struct {
	CgroupsPath string                              `json:"cgroupsPath,omitempty"`
	Sysctl      map[string]string                   `json:"sysctl,omitempty"`
	Resources   *runtimeapi.LinuxContainerResources `json:"resources,omitempty"`
	Namespaces  []specNamespace                     `json:"namespaces"`
}

// specNamespace is one namespace of a container. The container joins the namespace at the path. Without a path, the
// container has its own. As in the OCI specification, a namespace of the node is left out.
type specNamespace struct {
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
}

// podNetns returns the path of a pod's network namespace: the pin, which outlives the sandbox, or else the namespace of
// the sandbox process. It is empty if the pod has neither.
func podNetns(pod *state.Pod) string {
	if pod.Status.NetnsPath != "" {
		return pod.Status.NetnsPath
	}
	return processNamespace(pod.Status.PID, "net")
}

// podIPC returns the path of a pod's IPC namespace, empty if unknown.
func podIPC(pod *state.Pod) string {
	if pod.Status.Namespaces != nil {
		return pod.Status.Namespaces.IPC
	}
	return processNamespace(pod.Status.PID, "ipc")
}

// processNamespace returns the path of a namespace of a process, empty without a process.
func processNamespace(pid int, kind string) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf("/proc/%d/ns/%s", pid, kind)
}

func podNamespaces(pod *state.Pod) []specNamespace {
	options := namespaceOptions(pod)
	namespaces := append([]specNamespace{{Type: "mount"}}, sharedNamespaces(pod)...)
	if options.GetPid() != runtimeapi.NamespaceMode_NODE {
		namespaces = append(namespaces, specNamespace{Type: "pid"})
	}
	if options.GetIpc() != runtimeapi.NamespaceMode_NODE {
		namespaces = append(namespaces, specNamespace{Type: "ipc"})
	}
	return namespaces
}

// sharedNamespaces lists the namespaces of a pod that no container can decline: network, host name and users. With a
// sandbox container, each container has a namespace of its own for the host name.
func sharedNamespaces(pod *state.Pod) []specNamespace {
	var all []specNamespace
	if !pod.Meta.HostNetwork {
		uts := specNamespace{Type: "uts"}
		if held := pod.Status.Namespaces; held != nil {
			uts.Path = held.UTS
		}
		all = append(all, uts, specNamespace{Type: "network", Path: podNetns(pod)})
	}
	if users := pod.Status.UserNamespace; users != "" {
		all = append(all, specNamespace{Type: "user", Path: users})
	}
	return all
}

func environment(config *runtimeapi.ContainerConfig) []string {
	var env []string
	for _, kv := range config.GetEnvs() {
		env = append(env, kv.GetKey()+"="+string(kv.GetValue()))
	}
	return env
}

func specMounts(mounts []*runtimeapi.Mount) []specMount {
	propagations := map[runtimeapi.MountPropagation]string{
		runtimeapi.MountPropagation_PROPAGATION_PRIVATE:           "rprivate",
		runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER: "rslave",
		runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL:     "rshared",
	}
	var specs []specMount
	for _, mount := range mounts {
		mode := "rw"
		if mount.GetReadonly() {
			mode = "ro"
		}
		specs = append(specs, specMount{
			Destination: mount.GetContainerPath(),
			Type:        "bind",
			Source:      mount.GetHostPath(),
			Options:     []string{"rbind", propagations[mount.GetPropagation()], mode},
		})
	}
	return specs
}

// containerNamespaces lists a container's namespaces. A namespace that it shares with its pod or another container has
// a path.
func containerNamespaces(snapshot *state.Snapshot, pod *state.Pod, config *runtimeapi.ContainerConfig) []specNamespace {
	options := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	namespaces := []specNamespace{{Type: "mount"}}
	switch options.GetPid() {
	case runtimeapi.NamespaceMode_CONTAINER:
		namespaces = append(namespaces, specNamespace{Type: "pid"})
	case runtimeapi.NamespaceMode_TARGET:
		if target, err := snapshot.Container(options.GetTargetId()); err == nil {
			namespaces = append(namespaces,
				specNamespace{Type: "pid", Path: processNamespace(target.Status.PID, "pid")})
		}
	case runtimeapi.NamespaceMode_POD:
		if pod != nil {
			namespaces = append(namespaces, specNamespace{Type: "pid", Path: processNamespace(pod.Status.PID, "pid")})
		}
	}
	if pod == nil {
		return namespaces
	}
	switch podMode := namespaceOptions(pod).GetIpc(); {
	case options.GetIpc() == runtimeapi.NamespaceMode_CONTAINER:
		namespaces = append(namespaces, specNamespace{Type: "ipc"})
	case options.GetIpc() == runtimeapi.NamespaceMode_POD && podMode != runtimeapi.NamespaceMode_NODE:
		namespaces = append(namespaces, specNamespace{Type: "ipc", Path: podIPC(pod)})
	}
	return append(namespaces, sharedNamespaces(pod)...)
}
