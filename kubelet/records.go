package kubelet

import (
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/allocation"
	"github.com/criadapter/criadapter/kubelet/cpumanager"
	"github.com/criadapter/criadapter/kubelet/devicemanager"
	"github.com/criadapter/criadapter/kubelet/events"
	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/userns"
)

// records are the files of the kubelet core other than pods and volumes.
type records struct {
	pulled    *imagemanager.Pulled
	access    *imagemanager.Access
	allocated *allocation.Manager
	ids       *userns.Manager
	devices   *devicemanager.Manager
	cpus      *cpumanager.Manager
}

// openRecords reads the records. Unreadable allocations only cause an event. Any other unreadable record is an error.
func (k *Kubelet) openRecords(recorder *events.Recorder) (kept records, err error) {
	root := k.opts.RootDir
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
	if kept.devices, err = devicemanager.Open(devicemanager.Options{
		Dir: k.opts.DevicePluginsDir, RootDir: root, Finished: k.finished, Event: recorder.RecordNode,
		Changed: func() { k.cluster.WakeNodeStatus() },
	}); err != nil {
		return kept, err
	}
	kept.cpus, err = cpumanager.Open(cpumanager.Options{
		Policy: k.opts.CPUManagerPolicy, Reserved: k.opts.reservedCPUs,
		ReservedCount: int(k.opts.Cluster.Reserved.Cpu().Value()), RootDir: root, Runtime: k.runtime,
		Finished: k.finished,
	})
	return kept, err
}

// finished reports whether a known pod has ended and its volumes and cgroup are removed. It reads k.workers at each
// call, because the pod workers are made after its callers.
func (k *Kubelet) finished(uid types.UID) bool { return k.workers.Finished(uid) }
