package cni

import (
	log "github.com/sirupsen/logrus"
)

// reload reads the folder and publishes what it found. Only the watcher calls
// it, once from New and then from its goroutine, never twice at a time.
func (n *Network) reload() {
	next, previous := loadDir(n.opts.ConfDir), n.current.Load()
	if next.sameAs(previous) {
		return
	}
	n.current.Store(next)
	logSkipped(next, previous)
	switch {
	case next.err != nil:
		log.WithField("dir", n.opts.ConfDir).WithError(next.err).Error("CNI configuration folder cannot be read")
	case next.list != nil:
		log.WithFields(log.Fields{"file": next.file, "network": next.list.Name}).Info("CNI configuration loaded")
	default:
		log.WithField("dir", n.opts.ConfDir).Warn("No valid CNI configuration: pods cannot get a network until one appears")
	}
}

// logSkipped reports each invalid file once, and again when its reason changes.
func logSkipped(next, previous *snapshot) {
	known := map[SkippedFile]bool{}
	if previous != nil {
		for _, s := range previous.skipped {
			known[s] = true
		}
	}
	for _, s := range next.skipped {
		if !known[s] {
			log.WithFields(log.Fields{"file": s.File, "reason": s.Reason}).Warn("CNI configuration skipped")
		}
	}
}
