package server

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// The verbose answers have the keys that scripts know from containerd's CRI
// plugin: .info.pid, .info.sandboxID, .info.config, .info.runtimeSpec.

// sandboxDetails is what `crictl inspectp` shows under info.
type sandboxDetails struct {
	PID                int                          `json:"pid"`
	ProcessStatus      string                       `json:"processStatus"`
	NetNamespaceClosed bool                         `json:"netNamespaceClosed"`
	Image              string                       `json:"image"`
	RuntimeHandler     string                       `json:"runtimeHandler"`
	RuntimeType        string                       `json:"runtimeType"`
	Config             *runtimeapi.PodSandboxConfig `json:"config"`
	RuntimeSpec        runtimeSpec                  `json:"runtimeSpec"`
	CNIResult          *cniResult                   `json:"cniResult,omitempty"`
}

// containerDetails is what `crictl inspect` shows under info.
type containerDetails struct {
	SandboxID   string                      `json:"sandboxID"`
	PID         int                         `json:"pid"`
	RuntimeType string                      `json:"runtimeType"`
	Config      *runtimeapi.ContainerConfig `json:"config"`
	RuntimeSpec runtimeSpec                 `json:"runtimeSpec"`
}

// cniResult has the pod's addresses by interface.
type cniResult struct {
	Interfaces map[string]cniInterface `json:"Interfaces"`
}

type cniInterface struct {
	IPConfigs []cniAddress `json:"IPConfigs"`
}

type cniAddress struct {
	IP string `json:"IP"`
}

// runtimeSpec is the part of an OCI runtime specification that is known without
// asking the engine.
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

// specNamespace is a namespace that the container has of its own, or joins when
// it has a path. A namespace of the node is left out, as in the OCI
// specification.
type specNamespace struct {
	Type string `json:"type"`
	Path string `json:"path,omitempty"`
}

func (s *Server) sandboxInfo(ctx context.Context, pod *state.Pod) (map[string]string, error) {
	linux := pod.Meta.Config.GetLinux()
	status := "exited"
	if pod.Status.Running {
		status = "running"
	}
	details := sandboxDetails{
		PID:                pod.Status.PID,
		ProcessStatus:      status,
		NetNamespaceClosed: !pod.Meta.HostNetwork && podNetns(pod) == "",
		Image:              pod.Meta.ImageID,
		RuntimeHandler:     pod.Meta.RuntimeHandler,
		RuntimeType:        s.runtimeType(ctx, pod),
		Config:             pod.Meta.Config,
		RuntimeSpec: runtimeSpec{
			Hostname:    pod.Meta.Config.GetHostname(),
			Annotations: pod.Meta.Config.GetAnnotations(),
			Linux: specLinux{
				CgroupsPath: linux.GetCgroupParent(),
				Sysctl:      linux.GetSysctls(),
				Namespaces:  podNamespaces(pod),
			},
		},
		CNIResult: addressesOf(pod),
	}
	return encodeInfo(map[string]any{"info": details})
}

func addressesOf(pod *state.Pod) *cniResult {
	if len(pod.Status.IPs) == 0 {
		return nil
	}
	var eth0 cniInterface
	for _, ip := range pod.Status.IPs {
		eth0.IPConfigs = append(eth0.IPConfigs, cniAddress{IP: ip})
	}
	return &cniResult{Interfaces: map[string]cniInterface{"eth0": eth0}}
}

// runtimeType is the OCI runtime of a pod: its handler, or the engine's default
// where that is known.
func (s *Server) runtimeType(ctx context.Context, pod *state.Pod) string {
	if pod != nil && pod.Meta.RuntimeHandler != "" {
		return pod.Meta.RuntimeHandler
	}
	features, _ := s.lastFeatures(ctx)
	return features.DefaultRuntime
}

// podNetns is the path of a pod's network namespace: the pinned one, which
// outlives the sandbox, or that of its process. Empty when there is neither.
func podNetns(pod *state.Pod) string {
	if pod.Status.NetnsPath != "" {
		return pod.Status.NetnsPath
	}
	return processNamespace(pod.Status.PID, "net")
}

// processNamespace is the path of a namespace of a process, empty for none.
func processNamespace(pid int, kind string) string {
	if pid == 0 {
		return ""
	}
	return fmt.Sprintf("/proc/%d/ns/%s", pid, kind)
}

func podNamespaces(pod *state.Pod) []specNamespace {
	options := namespaceOptions(pod)
	namespaces := []specNamespace{{Type: "mount"}, {Type: "uts"}}
	if options.GetPid() != runtimeapi.NamespaceMode_NODE {
		namespaces = append(namespaces, specNamespace{Type: "pid"})
	}
	if options.GetIpc() != runtimeapi.NamespaceMode_NODE {
		namespaces = append(namespaces, specNamespace{Type: "ipc"})
	}
	if !pod.Meta.HostNetwork {
		namespaces = append(namespaces, specNamespace{Type: "network", Path: podNetns(pod)})
	}
	return namespaces
}

func (s *Server) containerInfo(ctx context.Context, snapshot *state.Snapshot, c *state.Container) (map[string]string, error) {
	config := c.Meta.Config
	// A container may outlive its pod's entry; then what the pod would tell is
	// left out.
	pod, err := snapshot.Pod(c.SandboxID)
	if err != nil {
		pod = nil
	}
	details := containerDetails{
		SandboxID:   c.SandboxID,
		PID:         c.Status.PID,
		RuntimeType: s.runtimeType(ctx, pod),
		Config:      config,
		RuntimeSpec: runtimeSpec{
			Process: &specProcess{
				Terminal: config.GetTty(),
				Args:     append(append([]string(nil), config.GetCommand()...), config.GetArgs()...),
				Env:      environment(config),
				Cwd:      config.GetWorkingDir(),
			},
			Mounts:      specMounts(config.GetMounts()),
			Annotations: config.GetAnnotations(),
			Linux: specLinux{
				Resources:  c.Status.Resources.GetLinux(),
				Namespaces: containerNamespaces(snapshot, pod, config),
			},
		},
	}
	return encodeInfo(map[string]any{"info": details})
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

// containerNamespaces lists a container's namespaces with the paths of those
// that it shares with its pod or with another container.
func containerNamespaces(snapshot *state.Snapshot, pod *state.Pod, config *runtimeapi.ContainerConfig) []specNamespace {
	options := config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	namespaces := []specNamespace{{Type: "mount"}, {Type: "uts"}}
	switch options.GetPid() {
	case runtimeapi.NamespaceMode_CONTAINER:
		namespaces = append(namespaces, specNamespace{Type: "pid"})
	case runtimeapi.NamespaceMode_TARGET:
		if target, err := snapshot.Container(options.GetTargetId()); err == nil {
			namespaces = append(namespaces, specNamespace{Type: "pid", Path: processNamespace(target.Status.PID, "pid")})
		}
	case runtimeapi.NamespaceMode_POD:
		if pod != nil {
			namespaces = append(namespaces, specNamespace{Type: "pid", Path: processNamespace(pod.Status.PID, "pid")})
		}
	}
	if pod == nil {
		return namespaces
	}
	if options.GetIpc() != runtimeapi.NamespaceMode_NODE {
		namespaces = append(namespaces, specNamespace{Type: "ipc", Path: processNamespace(pod.Status.PID, "ipc")})
	}
	if !pod.Meta.HostNetwork {
		namespaces = append(namespaces, specNamespace{Type: "network", Path: podNetns(pod)})
	}
	return namespaces
}
