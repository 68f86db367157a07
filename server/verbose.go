package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// The verbose answers have the keys that scripts use with containerd's CRI plugin: .info.pid, .info.sandboxID,
// .info.config, .info.runtimeSpec.

// sandboxDetails is the info of `crictl inspectp`.
type sandboxDetails struct {
	PID                int                          `json:"pid"`
	ProcessStatus      string                       `json:"processStatus"`
	NetNamespaceClosed bool                         `json:"netNamespaceClosed"`
	Image              string                       `json:"image"`
	RuntimeHandler     string                       `json:"runtimeHandler"`
	RuntimeType        string                       `json:"runtimeType"`
	Config             *runtimeapi.PodSandboxConfig `json:"config"`
	// Overhead and Resources are the present limits.
	Overhead    *runtimeapi.LinuxContainerResources `json:"overhead,omitempty"`
	Resources   *runtimeapi.LinuxContainerResources `json:"resources,omitempty"`
	RuntimeSpec runtimeSpec                         `json:"runtimeSpec"`
	CNIResult   *cniResult                          `json:"cniResult,omitempty"`
}

// containerDetails is the info of `crictl inspect`.
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
		Overhead:           pod.Status.Overhead,
		Resources:          pod.Status.Resources,
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

// runtimeType is the OCI runtime of a pod: its handler, or the engine's default if known.
func (s *Server) runtimeType(ctx context.Context, pod *state.Pod) string {
	if pod != nil && pod.Meta.RuntimeHandler != "" {
		return pod.Meta.RuntimeHandler
	}
	features, _ := s.lastFeatures(ctx)
	return features.DefaultRuntime
}

func (s *Server) containerInfo(
	ctx context.Context, snapshot *state.Snapshot, c *state.Container,
) (map[string]string, error) {
	config := c.Meta.Config
	// A container may outlive its pod's entry. Then the pod's details are left out.
	pod := snapshot.PodOf(c)
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
