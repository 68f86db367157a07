package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/containerd/log"
	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/step"
)

// Del takes the pod off its network. It runs the plugins with the configuration and the arguments that Add used, even
// if the directory has changed. If these are lost, it uses the arguments from pod and a configuration of the directory.
// network names that configuration (Result.Config of Add). An empty network means the current configuration. If network
// is empty and a plugin is missing, Del runs no plugin, because the pod may never have been joined.
//
// Plugins of an unfinished ADD are killed first. Del fails while one of them has not ended. If DEL fails after an ADD
// that never succeeded, Del tries the directory's configuration of the same network and the same plugins. An add-on may
// have written an incomplete configuration first, with which neither ADD nor DEL can succeed.
//
// It is idempotent: it succeeds for pods that were never joined, for removed ones, and for pods without a namespace.
// While the cache has the pod, only pod.ID is needed. After success, Options.CacheDir has nothing of the pod. After an
// error, call Del again.
//
// Del fails with errdefs.ErrInvalidArgument for a bad id. It fails with ErrUnavailable if a plugin is missing or
// reports "try again later". It fails with the context's error if ctx ends, or half of Options.Timeout has passed.
func (n *Network) Del(ctx context.Context, pod Pod, network string) (err error) {
	ctx, end := n.begin(ctx, "DEL", n.opts.Timeout/2)
	defer func() { end(err) }()
	if err := pod.validateID(); err != nil {
		return err
	}
	pending, err := n.pending.get(pod.ID)
	if err == nil && pending != nil {
		err = endAdd(ctx, pod.ID)
	}
	if err != nil {
		return fmt.Errorf("CNI DEL for pod %s: %w", pod.ID, err)
	}
	attachments, err := n.attachments(ctx, pod.ID)
	if err != nil {
		return fmt.Errorf("CNI DEL for pod %s: %w", pod.ID, err)
	}
	if len(attachments) == 0 {
		attachments = n.guess(ctx, pod, network)
	}
	var errs []error
	for _, a := range attachments {
		if pod.NetnsPath != "" {
			a.rt.NetNS = pod.NetnsPath
		}
		err := n.delAttachment(ctx, a.list, a.rt)
		if err != nil && pending != nil && ctx.Err() == nil {
			err = n.delCorrected(ctx, a, err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("CNI DEL for pod %s: %w", pod.ID, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return n.forget(pod.ID)
}

// delCorrected runs DEL with the corrected configuration, if there is one. err is the error of the DEL with the
// attachment's own configuration.
func (n *Network) delCorrected(ctx context.Context, a attachment, err error) error {
	list := n.corrected(a.list)
	if list == nil {
		return err
	}
	if again := n.delAttachment(ctx, list, a.rt); again != nil {
		return errors.Join(err, fmt.Errorf("with the current configuration: %w", again))
	}
	return nil
}

// corrected returns the directory's configuration of the same network, if it has the same plugins and IPAM plugins, but
// other settings. Otherwise it returns nil.
func (n *Network) corrected(list *libcni.NetworkConfigList) *libcni.NetworkConfigList {
	now := n.current.Load().byName[list.Name]
	if now == nil || bytes.Equal(now.Bytes, list.Bytes) ||
		!slices.EqualFunc(now.Plugins, list.Plugins, func(a, b *libcni.PluginConfig) bool {
			return a.Network.Type == b.Network.Type && a.Network.IPAM.Type == b.Network.IPAM.Type
		}) {
		return nil
	}
	return now
}

// Joined reports whether the pod is attached: an Add has begun, and neither its undo nor a Del has succeeded since. It
// reads the disk only.
func (n *Network) Joined(id string) (bool, error) {
	if err := (Pod{ID: id}).validateID(); err != nil {
		return false, err
	}
	kept, err := n.kept(id)
	if err != nil {
		return false, fmt.Errorf("CNI attachments of pod %s: %w", id, err)
	}
	return len(kept) > 0, nil
}

// attachment is one attachment to delete.
type attachment struct {
	list *libcni.NetworkConfigList
	rt   *libcni.RuntimeConf
}

// attachments returns the readable attachments of a pod.
func (n *Network) attachments(ctx context.Context, id string) ([]attachment, error) {
	kept, err := n.kept(id)
	return parseAttachments(ctx, kept), err
}

// kept returns a pod's attachments in the cache and among the pending ADDs.
func (n *Network) kept(id string) ([]*libcni.NetworkAttachment, error) {
	kept, err := n.cni.GetCachedAttachments(id)
	if err != nil {
		return nil, fmt.Errorf("read the cache: %w", err)
	}
	if len(kept) == 0 {
		// The cache goes first: it also has the result. A pod has both a cache entry and a pending ADD only if the
		// process died before it removed the pending ADD.
		pending, err := n.pending.get(id)
		if err != nil {
			return nil, fmt.Errorf("read the pending ADD: %w", err)
		}
		if pending != nil {
			kept = append(kept, pending)
		}
	}
	return kept, nil
}

// parseAttachments leaves out, and logs, attachments without a valid configuration.
func parseAttachments(ctx context.Context, kept []*libcni.NetworkAttachment) []attachment {
	var found []attachment
	for _, k := range kept {
		list, err := libcni.NetworkConfFromBytes(k.Config)
		if err != nil {
			log.G(ctx).WithFields(log.Fields{"podSandboxID": k.ContainerID, "network": k.Network}).WithError(err).
				Warn("cannot read cached CNI configuration")
			continue
		}
		found = append(found, attachment{list: list, rt: &libcni.RuntimeConf{
			ContainerID:    k.ContainerID,
			NetNS:          k.NetNS,
			IfName:         k.IfName,
			Args:           k.CniArgs,
			CapabilityArgs: k.CapabilityArgs,
		}})
	}
	return found
}

// guess returns attachments for a pod without any record: it was never joined, is off the network already, or the cache
// is lost. In each of these cases, DEL does no harm.
func (n *Network) guess(ctx context.Context, pod Pod, network string) []attachment {
	snap := n.current.Load()
	list := snap.list
	if network != "" {
		list = snap.byName[network]
	}
	if list == nil {
		if network != "" {
			log.G(ctx).WithFields(log.Fields{"podSandboxID": pod.ID, "network": network}).
				Warn("skipping CNI DEL, neither a cached nor a current configuration of the network")
		}
		return nil
	}
	if err := n.findPlugins(list, snap.file); network == "" && err != nil {
		log.G(ctx).WithField("podSandboxID", pod.ID).WithError(err).
			Warn("skipping CNI DEL, no ADD is known and a plugin is missing")
		return nil
	}
	capabilities, err := pod.capabilityArgs()
	if err != nil {
		// ADD refuses such a pod, so no plugin ever got its capabilities.
		capabilities = nil
	}
	return []attachment{{list: list, rt: &libcni.RuntimeConf{
		ContainerID:    pod.ID,
		NetNS:          pod.NetnsPath,
		IfName:         interfaceName,
		Args:           pod.cniArgs(),
		CapabilityArgs: capabilities,
	}}}
}

func (n *Network) delAttachment(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	live := *rt
	live.NetNS = liveNetns(rt.NetNS)
	return typed(n.cni.DelNetworkList(ctx, list, &live))
}

// liveNetns returns path if it is a namespace, and "" if the namespace is gone. In the specification, an empty path
// asks a plugin to delete only resources outside the namespace. Plugins cope with an empty path, but many fail on a
// file that has lost its namespace.
func liveNetns(path string) string {
	var fs unix.Statfs_t
	err := unix.Statfs(path, &fs)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), path == "":
		return ""
	case err == nil && fs.Type != unix.NSFS_MAGIC && fs.Type != unix.PROC_SUPER_MAGIC:
		return ""
	}
	return path
}

// forget removes the rest of the pod in the cache directory: its pending ADD, and entries that libcni could not read.
func (n *Network) forget(id string) error {
	defer step.At("CNI: forget")()
	err := ForgetAttachments([]string{n.opts.CacheDir}, id)
	if err == nil {
		err = n.pending.end(id)
	}
	if err != nil {
		return fmt.Errorf("clear the CNI cache of pod %s: %w", id, err)
	}
	return nil
}

// belongsToOther reports whether a cache entry names another pod: file names
// join network, id and interface with "-", which each of them may contain.
func belongsToOther(path, id string) bool {
	content, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var entry struct {
		ContainerID string `json:"containerId"`
	}
	return json.Unmarshal(content, &entry) == nil && entry.ContainerID != "" && entry.ContainerID != id
}
