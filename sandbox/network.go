package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
)

// engineBridge is the network's name in the record of a pod that the engine itself has connected.
const engineBridge = "docker-bridge"

// connect gives the pod its network: nothing to do on the host's, the engine's word for its own bridge, and otherwise
// CNI ADD in the pinned namespace. The pin comes first, so that CNI DEL works when the sandbox is long dead.
func (s *Service) connect(ctx context.Context, p *pending) error {
	if usesHostNetwork(p.config) {
		return nil
	}
	if err := p.holder.connect(ctx, p); err != nil {
		return err
	}
	if values := translate.InterfaceSysctls(p.config); len(values) > 0 && !s.opts.EngineBridge {
		if err := netns.Open(p.record.NetnsPath).SetSysctls(ctx, values); err != nil {
			return fmt.Errorf("config.linux.sysctls: %w", err)
		}
	}
	return s.opts.Files.writeHosts(p.record.SandboxID, p.config, p.record.Network.IPs)
}

// joined is how far a pod has come on its way to the network.
type joined struct {
	// handle is its pinned namespace, nil without.
	handle *netns.Handle
	result *cni.Result
	err    error
}

// join pins the namespace of a process and joins it to the network.
func (s *Service) join(ctx context.Context, path string, pod cni.Pod, pid int) joined {
	handle, err := netns.Pin(pid, filepath.Base(path), netns.PinOptions{Dir: s.opts.NetnsDir})
	if err != nil {
		return joined{err: err}
	}
	result, err := s.opts.Network.Add(ctx, pod)
	return joined{handle: &handle, result: result, err: err}
}

// keep pushes what undoes a join, as far as it came, and records its result.
func (s *Service) keep(p *pending, j joined) {
	if j.handle != nil {
		p.undo.push("unpin the pod's network namespace", func(context.Context) error { return j.handle.Unpin() })
	}
	var notUndone *cni.NotUndoneError
	if j.result == nil && !errors.As(j.err, &notUndone) {
		return
	}
	pod, network := cniPod(p.record, p.config), ""
	if j.result != nil {
		network = j.result.Config
		p.record.Network = &checkpoint.Network{Config: j.result.Config, IPs: j.result.IPs, Result: j.result.Raw}
	}
	p.undo.push("take the pod off the network", func(ctx context.Context) error {
		return s.opts.Network.Del(ctx, pod, network)
	})
}

// disconnect undoes Network.Add for a recorded pod. It is idempotent.
func (s *Service) disconnect(ctx context.Context, record checkpoint.Record, config *runtimeapi.PodSandboxConfig) error {
	network := ""
	if record.Network != nil {
		network = record.Network.Config
	}
	return s.opts.Network.Del(ctx, cniPod(record, config), network)
}

func (s *Service) netnsPath(sandboxID string) string { return netns.PodPin(s.opts.NetnsDir, sandboxID) }

func cniPod(record checkpoint.Record, config *runtimeapi.PodSandboxConfig) cni.Pod {
	pod := cni.Pod{
		ID:          record.SandboxID,
		Name:        record.Name,
		Namespace:   record.Namespace,
		UID:         record.UID,
		NetnsPath:   record.NetnsPath,
		Annotations: config.GetAnnotations(),
		CgroupPath:  config.GetLinux().GetCgroupParent(),
		DNS: cni.DNS{
			Servers:  slices.Clone(config.GetDnsConfig().GetServers()),
			Searches: slices.Clone(config.GetDnsConfig().GetSearches()),
			Options:  slices.Clone(config.GetDnsConfig().GetOptions()),
		},
	}
	for _, m := range config.GetPortMappings() {
		pod.PortMappings = append(pod.PortMappings, cni.PortMapping{
			HostPort:      m.GetHostPort(),
			ContainerPort: m.GetContainerPort(),
			Protocol:      strings.ToLower(m.GetProtocol().String()),
			HostIP:        m.GetHostIp(),
		})
	}
	return pod
}
