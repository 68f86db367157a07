package cni

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containernetworking/cni/libcni"
)

// Add joins the pod to the current network and returns its addresses.
//
// If ADD fails, Add runs DEL before it returns, so that plugins hold nothing for the pod. That DEL has the timeout
// Options.undoTimeout and ignores the end of ctx. If DEL fails as well, the error is a *NotUndoneError and Del must be
// called again.
//
// Add fails with:
//
//   - errdefs.ErrInvalidArgument for an invalid pod. The error names the field.
//   - ErrUnavailable if no configuration is loaded, or a plugin is missing or reports "try again later".
//   - ErrFailedPrecondition if the namespace does not exist.
//   - ErrAlreadyExists if the pod is joined, or an earlier ADD is not undone. No plugin has run then.
//   - The context's error if ctx ends, or Options.Timeout has passed. The plugins are killed then.
//   - A plugin's own error. With errors.As it is a *types.Error of package
//     github.com/containernetworking/cni/pkg/types.
func (n *Network) Add(ctx context.Context, pod Pod) (_ *Result, err error) {
	ctx, end := n.begin(ctx, "ADD", n.opts.Timeout)
	defer func() { end(err) }()
	rt, err := pod.runtimeConf()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(pod.NetnsPath); err != nil {
		return nil, fmt.Errorf("network namespace of pod %s: %w: %w", pod.ID, err, errdefs.ErrFailedPrecondition)
	}
	snap := n.current.Load()
	if snap.list == nil {
		return nil, n.noConfig(snap)
	}
	// A missing plugin in the middle of the chain would fail ADD half way. DEL would fail before it reaches the plugins
	// that did run.
	if err := errors.Join(ctx.Err(), n.findPlugins(snap.list, snap.file)); err != nil {
		return nil, fmt.Errorf("CNI ADD for pod %s: %w", pod.ID, err)
	}
	joined, err := n.cni.GetCachedAttachments(pod.ID)
	if err != nil {
		return nil, fmt.Errorf("read the CNI cache for pod %s: %w", pod.ID, err)
	}
	if len(joined) > 0 {
		return nil, fmt.Errorf("pod %s is joined to network %q already: %w", pod.ID, joined[0].Network,
			errdefs.ErrAlreadyExists)
	}
	for _, capability := range unserved(snap.list, rt.CapabilityArgs) {
		log.G(ctx).WithFields(log.Fields{"podSandboxID": pod.ID, "network": snap.list.Name, "capability": capability}).
			Warn("no CNI plugin declares a capability that the pod needs, the capability has no effect unless the " +
				"add-on serves it")
	}
	if err := n.beginAdd(ctx, snap.list, rt); err != nil {
		return nil, err
	}
	result, err := n.add(ctx, snap.list, rt)
	if err != nil {
		err = fmt.Errorf("CNI ADD for pod %s: %w", pod.ID, typed(err))
		log.G(ctx).WithError(err).WithFields(log.Fields{"podSandboxID": pod.ID, "network": snap.list.Name}).
			Debug("CNI ADD failed, running DEL")
		if undoErr := n.undo(ctx, snap.list, rt); undoErr != nil {
			return nil, &NotUndoneError{Add: err, Undo: undoErr}
		}
		return nil, err
	}
	return result, nil
}

func (n *Network) add(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) (*Result, error) {
	raw, err := n.cni.AddNetworkList(ctx, list, rt)
	if err != nil {
		return nil, err
	}
	result, err := newResult(list.Name, raw)
	if err != nil {
		return nil, err
	}
	// libcni's cache now has the attachment, so the pending ADD is no longer needed.
	if err := n.pending.end(rt.ContainerID); err != nil {
		return nil, fmt.Errorf("remove the pending ADD: %w", err)
	}
	return result, nil
}

// undo removes the leftovers of a failed ADD. If ctx has ended, the killed plugins may have left processes, which undo
// ends before DEL.
func (n *Network) undo(ctx context.Context, list *libcni.NetworkConfigList, rt *libcni.RuntimeConf) error {
	stopped := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.opts.undoTimeout)
	defer cancel()
	var err error
	if stopped {
		err = endAdd(ctx, rt.ContainerID)
	}
	if err == nil {
		err = n.delAttachment(ctx, list, rt)
	}
	if err != nil {
		return fmt.Errorf("undo CNI ADD for pod %s, delete the pod's network again: %w", rt.ContainerID, err)
	}
	return n.forget(rt.ContainerID)
}
