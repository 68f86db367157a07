package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/internal/netns"
)

// engineBridge is the network's name in the record of a pod that the engine itself has connected.
const engineBridge = "docker-bridge"

// podNetwork joins pods to Options.Network through pinned network namespaces.
type podNetwork struct{ opts *Options }

// joined is the result of joining a pod to the network, complete or not.
type joined struct {
	// handle is the namespace that the undo of the join unpins, nil for none.
	handle *netns.Handle
	result *cni.Result
	err    error
}

// netnsPath is the pin of a pod's network namespace.
func (n podNetwork) netnsPath(sandboxID string) string {
	return netns.PodPin(n.opts.NetnsDir, sandboxID)
}

// netnsDir is the directory of the pins.
func (n podNetwork) netnsDir() string { return filepath.Dir(n.netnsPath("")) }

// join pins the namespace of a process and joins it to the network. The pin comes first, so that CNI DEL works when the
// sandbox has long ended.
func (n podNetwork) join(ctx context.Context, pod cni.Pod, pid int) joined {
	handle, err := netns.Pin(pid, n.netnsDir(), filepath.Base(pod.NetnsPath))
	if err != nil {
		return joined{err: err}
	}
	result, err := n.opts.Network.Add(ctx, pod)
	return joined{handle: &handle, result: result, err: err}
}

// joinPinned joins a pod's pinned namespace to the network, and records the result. handle is nil if an earlier step
// has registered the unpinning as its undo.
func (n podNetwork) joinPinned(ctx context.Context, p *pending, handle *netns.Handle) error {
	result, err := n.opts.Network.Add(ctx, cniPod(p.record, p.config))
	n.recordJoin(p, joined{handle: handle, result: result, err: err})
	return err
}

// recordJoin puts the result of a join into the pod's record. It registers the undo of the pin, and of a CNI ADD that
// has succeeded or may have left an attachment.
func (n podNetwork) recordJoin(p *pending, j joined) {
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
		return n.opts.Network.Del(ctx, pod, network)
	})
}

// disconnect undoes Network.Add for a recorded pod. It is idempotent.
func (n podNetwork) disconnect(ctx context.Context, record checkpoint.Record,
	config *runtimeapi.PodSandboxConfig) error {
	network := ""
	if record.Network != nil {
		network = record.Network.Config
	}
	return n.opts.Network.Del(ctx, cniPod(record, config), network)
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
