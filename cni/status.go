package cni

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"
)

// statusTimeout bounds one round of STATUS, so that a plugin that hangs does not hang the kubelet's Status call.
const statusTimeout = 5 * time.Second

// statusVersion is the first version of the specification with STATUS.
const statusVersion = "1.1.0"

// statusCache keeps the plugins' last answer. Its slot serialises the requests to the plugins.
type statusCache struct {
	slot chan statusAnswer
}

type statusAnswer struct {
	of  *snapshot
	at  time.Time
	err error
}

func newStatusCache() statusCache {
	c := statusCache{slot: make(chan statusAnswer, 1)}
	c.slot <- statusAnswer{}
	return c
}

// Status returns nil if pods can be joined to the network. Otherwise it returns errdefs.ErrUnavailable with the reason.
// Either there is no configuration (with the fault of every skipped file), or a plugin is not installed, or a plugin's
// STATUS reports an error.
//
// Each call looks at the configuration and at the plugins' files. For configurations of version 1.1.0 and later it also
// runs STATUS, at most once per Options.statusTTL and configuration, and for at most five seconds. A plugin that does
// not know STATUS counts as ready.
func (n *Network) Status(ctx context.Context) error {
	snap := n.current.Load()
	if snap.list == nil {
		return n.noConfig(snap)
	}
	if err := n.findPlugins(snap.list, snap.file); err != nil {
		return err
	}
	if hasStatus, err := version.GreaterThanOrEqualTo(snap.list.CNIVersion, statusVersion); err != nil || !hasStatus {
		return err
	}
	return n.pluginStatus(ctx, snap)
}

// noConfig says why no configuration is loaded.
func (n *Network) noConfig(snap *snapshot) error {
	if snap.err != nil {
		return fmt.Errorf("CNI configuration directory: %w: %w", snap.err, errdefs.ErrUnavailable)
	}
	if len(snap.skipped) == 0 {
		return fmt.Errorf("no CNI configuration in %s yet: install a network plugin: %w", n.opts.ConfDir,
			errdefs.ErrUnavailable)
	}
	var faults []string
	for _, s := range snap.skipped {
		faults = append(faults, s.File+": "+s.Reason)
	}
	return fmt.Errorf("no valid CNI configuration in %s: %s: %w", n.opts.ConfDir, strings.Join(faults, "; "),
		errdefs.ErrUnavailable)
}

// findPlugins checks that the program of every plugin in the chain exists. It does not look for the type of an ipam
// section, because only the plugin knows whether that type names a program. A plugin that runs such a program reports
// in its STATUS if the program is missing.
func (n *Network) findPlugins(list *libcni.NetworkConfigList, file string) error {
	for _, p := range list.Plugins {
		if _, err := n.exec.FindInPath(p.Network.Type, n.opts.BinDirs); err != nil {
			return fmt.Errorf("network %q (%s): %w", list.Name, file, err)
		}
	}
	return nil
}

func (n *Network) pluginStatus(ctx context.Context, snap *snapshot) error {
	var last statusAnswer
	select {
	case last = <-n.status.slot:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { n.status.slot <- last }()
	if last.of == snap && time.Since(last.at) < n.opts.statusTTL {
		return last.err
	}
	bounded, end := n.begin(ctx, "STATUS", statusTimeout)
	err := n.askPlugins(bounded, snap)
	end(err)
	// Later calls get this answer. But if the caller gave up, the error says nothing about the network.
	if ctx.Err() == nil {
		last = statusAnswer{of: snap, at: time.Now(), err: err}
	}
	return err
}

func (n *Network) askPlugins(ctx context.Context, snap *snapshot) error {
	for _, p := range snap.list.Plugins {
		// One plugin at a time: libcni stops at the first error, so that a plugin without STATUS would hide the others.
		err := n.cni.GetStatusNetworkList(ctx, single(snap.list, p))
		if err == nil || lacksCommand(err) {
			continue
		}
		if !errdefs.IsUnavailable(err) {
			err = fmt.Errorf("%w: %w", err, errdefs.ErrUnavailable)
		}
		return fmt.Errorf("network %q: plugin %q is not ready: %w", snap.list.Name, p.Network.Type, err)
	}
	return nil
}
