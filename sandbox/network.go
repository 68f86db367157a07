package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/netns"
)

// engineBridge is the network's name in the record of a pod that the engine
// itself has connected.
const engineBridge = "docker-bridge"

// connect gives the pod its network: nothing to do on the host's, the engine's
// word for its own bridge, and otherwise CNI ADD in the pinned namespace. The
// pin comes first, so that CNI DEL works when the sandbox is long dead.
func (s *Service) connect(ctx context.Context, p *pending) error {
	switch {
	case usesHostNetwork(p.config):
		return nil
	case s.opts.Network == nil:
		ips := docker.Addresses(p.inspect)
		if len(ips) == 0 {
			return fmt.Errorf("the engine gave the pod no address: give it its bridge (dockerd --bridge) or use --network-plugin=cni: %w", errdefs.ErrFailedPrecondition)
		}
		p.record.Network = &checkpoint.Network{Config: engineBridge, IPs: ips}
	default:
		if err := s.join(ctx, p); err != nil {
			return err
		}
	}
	return s.opts.Files.writeHosts(p.record.SandboxID, p.config, p.record.Network.IPs)
}

func (s *Service) join(ctx context.Context, p *pending) error {
	handle, err := netns.Pin(p.inspect.State.Pid, filepath.Base(p.record.NetnsPath), netns.PinOptions{Folder: s.opts.NetnsFolder})
	if err != nil {
		return err
	}
	p.undo.push("unpin the pod's network namespace", func(context.Context) error { return handle.Unpin() })
	pod := cniPod(p.record, p.config)
	result, err := s.opts.Network.Add(ctx, pod)
	network := ""
	if err == nil {
		network = result.Config
	}
	var notUndone *cni.NotUndoneError
	if err == nil || errors.As(err, &notUndone) {
		p.undo.push("take the pod off the network", func(ctx context.Context) error {
			return s.opts.Network.Del(ctx, pod, network)
		})
	}
	if err != nil {
		return err
	}
	p.record.Network = &checkpoint.Network{Config: result.Config, IPs: result.IPs, Result: result.Raw}
	return nil
}

// disconnect undoes Network.Add for a recorded pod. It is idempotent.
func (s *Service) disconnect(ctx context.Context, record checkpoint.Record, config *runtimeapi.PodSandboxConfig) error {
	if s.opts.Network == nil {
		return nil
	}
	network := ""
	if record.Network != nil {
		network = record.Network.Config
	}
	return s.opts.Network.Del(ctx, cniPod(record, config), network)
}

func (s *Service) netnsPath(sandboxID string) string {
	folder := s.opts.NetnsFolder
	if folder == "" {
		folder = netns.DefaultFolder
	}
	return filepath.Join(folder, "criadapter-"+sandboxID[:min(len(sandboxID), 32)])
}

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
