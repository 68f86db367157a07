package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containernetworking/cni/libcni"
)

// Check asks the plugins whether the pod's attachment is still as Add left it,
// with the configuration and result of that time.
//
// Errors: errdefs.ErrNotFound when nothing is cached for the pod;
// ErrNotImplemented when the configuration's version has no CHECK (before
// 0.4.0); otherwise what the plugin says. A configuration with disableCheck
// passes.
func (n *Network) Check(ctx context.Context, pod Pod) (err error) {
	ctx, observed := n.opts.Observe(ctx, "CHECK")
	defer func() { observed(err) }()
	if err := pod.validateID(); err != nil {
		return err
	}
	kept, err := n.cni.GetCachedAttachments(pod.ID)
	if err != nil {
		return fmt.Errorf("CNI CHECK for pod %s: %w", pod.ID, err)
	}
	attachments := parseAttachments(kept)
	if len(attachments) == 0 {
		return fmt.Errorf("CNI CHECK for pod %s: it is joined to no network: %w", pod.ID, errdefs.ErrNotFound)
	}
	for _, a := range attachments {
		if pod.NetnsPath != "" {
			a.rt.NetNS = pod.NetnsPath
		}
		err := n.cni.CheckNetworkList(ctx, a.list, a.rt)
		if errors.Is(err, libcni.ErrorCheckNotSupp) {
			err = fmt.Errorf("%w: %w", err, errdefs.ErrNotImplemented)
		}
		if err != nil {
			return fmt.Errorf("CNI CHECK for pod %s: %w", pod.ID, typed(err))
		}
	}
	return nil
}
