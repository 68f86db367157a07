package state

import (
	"time"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
)

// vanished takes note that the engine has no such container (any more). A
// container is forgotten. A pod stays, NOTREADY, for as long as it has a
// checkpoint, also one that cannot be read now: it may still hold an address, and only a pod that is listed will
// be stopped and removed by the kubelet. So does one that was never shown,
// because its roll-back took the container away and then failed.
func (m *Mirror) vanished(id string) {
	m.mu.Lock()
	_, isPod := m.pods[id]
	known := m.knows(id)
	m.mu.Unlock()
	if known && !isPod {
		m.forget(id)
		return
	}
	record, err := m.opts.Records.Load(id)
	switch {
	case errdefs.IsNotFound(err) && known:
		m.forget(id)
	case errdefs.IsNotFound(err): // leave no tombstone for the many containers that are not ours
	case !known && err != nil:
		logrus.WithError(err).WithField("sandbox", id).Warn("cannot read the checkpoint of a pod that was never shown")
	case !known:
		m.PutPod(orphan(record))
	default:
		m.UpdatePod(id, func(s *PodStatus) {
			s.Running, s.PID = false, 0
			if s.FinishedAt.Before(s.StartedAt) || s.FinishedAt.IsZero() {
				s.FinishedAt = time.Now()
			}
		})
	}
}

// showOrphans publishes the pods that have a checkpoint but, at the first
// relist after a start, no engine container.
func (m *Mirror) showOrphans(listed map[string]struct{}) {
	select {
	case <-m.synced:
		return // from now on vanished keeps them
	default:
	}
	records, _, err := m.opts.Records.List()
	if err != nil { // the records that could be read are there all the same
		logrus.WithError(err).Warn("cannot read every pod's checkpoint")
	}
	for _, record := range records {
		if _, ok := listed[record.SandboxID]; !ok {
			m.PutPod(orphan(record))
		}
	}
}

// orphan is a pod of which only the checkpoint is left.
func orphan(record checkpoint.Record) Pod {
	pod := Pod{ID: record.SandboxID, Meta: PodMeta{CreatedAt: record.CreatedAt}}
	pod.Status.FinishedAt = record.CreatedAt
	fromRecord(&pod, record)
	pod.Meta.Name = translate.SandboxName(pod.Meta.Config.GetMetadata())
	pod.Meta.HostNetwork = pod.Meta.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	return pod
}
