package migrate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/logs"
)

// adopt takes one pod over, in the order of the package comment.
func (n *Node) adopt(ctx context.Context, pod *podPlan) error {
	ctx = log.WithLogger(ctx, log.G(ctx).WithFields(log.Fields{"podSandboxID": pod.id, "pod": pod.name}))
	n.pin(ctx, pod)
	if pod.attachment != nil {
		if err := pod.attachment.CopyTo(n.opts.CNICacheDir, pod.record.NetnsPath); err != nil {
			return fmt.Errorf("taking over pod %s: %w", pod.name, err)
		}
	}
	prepared := n.unlink(ctx, pod)
	if err := n.opts.Store.Save(ctx, pod.record); err != nil {
		for _, u := range prepared {
			err = errors.Join(err, u.Discard())
		}
		return fmt.Errorf("taking over pod %s: %w", pod.name, err)
	}
	logs := 0
	for _, u := range prepared {
		if err := u.Commit(); err != nil { // the log stays a link, and the next start tries again
			log.G(ctx).WithError(err).Warn("cannot continue container log in the CRI format")
			continue
		}
		logs++
	}
	fields := log.Fields{"network": pod.network, "addresses": pod.ips, "containers": pod.containers,
		"logs": logs}
	if len(pod.notes) > 0 {
		fields["notes"] = pod.notes
	}
	log.G(ctx).WithFields(fields).Info("took pod over")
	return nil
}

// pin pins the network namespace of a running pod. If the process has ended meanwhile, there is no namespace to pin.
// After any other error the recovery of pods tries again.
func (n *Node) pin(ctx context.Context, pod *podPlan) {
	if pod.pid == 0 {
		return
	}
	path := pod.record.NetnsPath
	_, err := netns.Pin(pod.pid, filepath.Dir(path), filepath.Base(path))
	if err != nil && !errdefs.IsNotFound(err) {
		log.G(ctx).WithError(err).Warn("cannot pin network namespace of pod")
	}
}

// unlink prepares the new logs and records their positions. A log stays a link if that fails.
func (n *Node) unlink(ctx context.Context, pod *podPlan) []*logs.Unlinked {
	var prepared []*logs.Unlinked
	for _, l := range pod.logs {
		history := l.history
		if history == l.kept {
			history = math.MaxInt64 // including output since the plan
		}
		u, err := logs.Unlink(l.engine, l.root(), l.path, history)
		if err != nil {
			log.G(ctx).WithError(err).WithField("container", l.container).
				Warn("container log stays a link to the engine's file")
			continue
		}
		kept := pod.record.Containers[l.id]
		kept.LogPosition = u.Position
		pod.record.Containers[l.id] = kept
		prepared = append(prepared, u)
	}
	return prepared
}

// Forget removes cri-dockerd's files of a removed pod. Otherwise cri-dockerd would show the pod again if the node goes
// back.
func (n *Node) Forget(id string) error {
	var errs []error
	for _, root := range n.opts.RootDirectories {
		if err := os.Remove(filepath.Join(root, shimDir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("removing cri-dockerd's checkpoint: %w", err))
		}
	}
	return errors.Join(append(errs, cni.ForgetAttachments(n.opts.CNICacheDirs, id))...)
}
