package cni

import (
	"context"

	"github.com/containerd/log"
)

// reload reads the directory and publishes the result. Only the watcher calls it: once from New, and then from its
// goroutine, one call at a time.
func (n *Network) reload(ctx context.Context) {
	next, previous := loadDir(n.opts.ConfDir), n.current.Load()
	if next.sameAs(previous) {
		return
	}
	if boot, err := bootTime(); err == nil {
		sweepLeases(ctx, next.byName, boot)
	}
	n.current.Store(next)
	logSkipped(ctx, next, previous)
	switch {
	case next.err != nil:
		log.G(ctx).WithField("dir", n.opts.ConfDir).WithError(next.err).Error("cannot read CNI configuration directory")
	case next.list != nil:
		log.G(ctx).WithFields(log.Fields{"file": next.file, "network": next.list.Name}).Info("CNI configuration loaded")
	default:
		log.G(ctx).WithField("dir", n.opts.ConfDir).
			Warn("no valid CNI configuration, pods cannot get a network until one appears")
	}
}

// logSkipped reports each invalid file once, and again when its reason changes.
func logSkipped(ctx context.Context, next, previous *snapshot) {
	known := map[SkippedFile]bool{}
	if previous != nil {
		for _, s := range previous.skipped {
			known[s] = true
		}
	}
	for _, s := range next.skipped {
		if !known[s] {
			log.G(ctx).WithFields(log.Fields{"file": s.File, "reason": s.Reason}).Warn("CNI configuration skipped")
		}
	}
}
