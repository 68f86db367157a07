package kubelet

import (
	"path/filepath"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/cpumanager"
	"github.com/criadapter/criadapter/kubelet/devicemanager"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/userns"
)

// records are what the kubelet core keeps on the disk beside pods and volumes.
type records struct {
	pulled    *imagemanager.Pulled
	access    *imagemanager.Access
	allocated *allocation.Manager
	ids       *userns.Manager
	devices   *devicemanager.Manager
	cpus      *cpumanager.Manager
}

// openRecords reads the records. Unreadable allocations are an event; other unreadable records are an error.
func openRecords(
	root string, recorder *events.Recorder, devices devicemanager.Options, cpus cpumanager.Options,
) (kept records, err error) {
	if kept.pulled, err = imagemanager.OpenPulled(filepath.Join(root, "pulled-images.json")); err != nil {
		return kept, err
	}
	if kept.access, err = imagemanager.OpenAccess(filepath.Join(root, "image-access.json")); err != nil {
		return kept, err
	}
	if kept.allocated, err = allocation.Open(filepath.Join(root, "allocated-resources.json")); err != nil {
		recorder.RecordNode(true, "CheckpointUnreadable", err.Error())
	}
	if kept.ids, err = userns.Open(filepath.Join(root, "user-ids.json")); err != nil {
		return kept, err
	}
	devices.RootDir, cpus.RootDir = root, root
	if kept.devices, err = devicemanager.Open(devices); err != nil {
		return kept, err
	}
	kept.cpus, err = cpumanager.Open(cpus)
	return kept, err
}
