package cni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

// gcTimeout bounds one GC with all its plugins: pods are not joined meanwhile.
const gcTimeout = 30 * time.Second

// Attached returns the path of the network namespace of each attached pod, by pod id. It reads the disk only.
func (n *Network) Attached() (map[string]string, error) {
	kept, err := n.keptOfAll()
	if err != nil {
		return nil, err
	}
	paths := make(map[string]string, len(kept))
	for _, a := range kept {
		paths[a.ContainerID] = a.NetNS
	}
	return paths, nil
}

// GC passes the current attachments to the plugins of the current network, which remove everything else. The
// current attachments are the pods with these ids, the entries of the cache and the pending ADDs. Pods of another
// runtime on the network lose their addresses. Plugins without GC are skipped, and so are configurations before 1.1.0
// or with disableGC.
//
// GC keeps the attachment of an Add that has recorded its pending ADD. Any other Add waits for the end of GC, half a
// minute at most.
func (n *Network) GC(ctx context.Context, pods []string) (err error) {
	snap := n.current.Load()
	if snap.list == nil || snap.list.DisableGC {
		return nil
	}
	if hasGC, err := version.GreaterThanOrEqualTo(snap.list.CNIVersion, "1.1.0"); err != nil || !hasGC {
		return err
	}
	ctx, end := n.begin(ctx, "GC", gcTimeout)
	defer func() { end(err) }()
	n.gate.Lock()
	defer n.gate.Unlock()
	valid, err := n.validAttachments(snap.list.Name, pods)
	if err != nil {
		return fmt.Errorf("CNI GC: %w", err)
	}
	var errs []error
	for _, p := range snap.list.Plugins {
		// One plugin at a time, for the reason in askPlugins.
		err := n.cni.GCNetworkList(ctx, single(snap.list, p), &libcni.GCArgs{ValidAttachments: valid})
		if err != nil && !lacksCommand(err) {
			errs = append(errs, fmt.Errorf("CNI GC of network %q: %w", snap.list.Name, typed(err)))
		}
	}
	return errors.Join(errs...)
}

// single returns the configuration of the network with p as its only plugin.
func single(list *libcni.NetworkConfigList, p *libcni.PluginConfig) *libcni.NetworkConfigList {
	return &libcni.NetworkConfigList{Name: list.Name, CNIVersion: list.CNIVersion, Plugins: []*libcni.PluginConfig{p}}
}

// validAttachments returns an attachment for each of pods, and the network's pending and cached attachments. libcni
// itself runs DEL for all other attachments in its cache.
func (n *Network) validAttachments(network string, pods []string) ([]types.GCAttachment, error) {
	kept, err := n.keptOfAll()
	if err != nil {
		return nil, err
	}
	valid := map[types.GCAttachment]bool{}
	for _, id := range pods {
		valid[types.GCAttachment{ContainerID: id, IfName: interfaceName}] = true
	}
	for _, a := range kept {
		if a.Network == network {
			valid[types.GCAttachment{ContainerID: a.ContainerID, IfName: a.IfName}] = true
		}
	}
	return slices.AppendSeq([]types.GCAttachment{}, maps.Keys(valid)), nil // an empty list becomes [] in JSON, not null
}

// keptOfAll returns the pending ADDs and the cached attachments of all pods. An ADD that ends moves from the pending
// ADDs to the cache. The pending ADDs are read first, so that such an ADD is found at least once.
func (n *Network) keptOfAll() ([]*libcni.NetworkAttachment, error) {
	pending, err := n.pending.all()
	if err != nil {
		return nil, fmt.Errorf("read the pending CNI ADDs: %w", err)
	}
	cached, err := n.cni.GetCachedAttachments("")
	if err != nil {
		return nil, fmt.Errorf("read the CNI cache: %w", err)
	}
	return append(pending, cached...), nil
}

// lacksCommand reports whether a plugin answered with the specification's code for a CNI_COMMAND that it does not know.
func lacksCommand(err error) bool {
	var reported *types.Error
	return errors.As(err, &reported) && reported.Code == types.ErrInvalidEnvironmentVariables
}

// beginAdd waits for the end of a running GC, and records that an ADD is about to run. It fails if ctx has ended by
// then.
func (n *Network) beginAdd(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	n.gate.RLock()
	defer n.gate.RUnlock()
	err := ctx.Err()
	if err == nil {
		err = n.pending.begin(list, rt)
	}
	if err != nil {
		return fmt.Errorf("record the CNI ADD of pod %s: %w", rt.ContainerID, err)
	}
	return nil
}
