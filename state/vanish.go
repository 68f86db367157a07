package state

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
)

// vanished takes note that the engine has no such container (any more). A container is forgotten. A pod stays,
// NOTREADY, for as long as it has a checkpoint, also one that cannot be read now: it may still hold an address, and
// only a pod that is listed will be stopped and removed by the kubelet. So does one that was never shown, because its
// roll-back took the container away and then failed.
func (c *Cache) vanished(ctx context.Context, id string) {
	c.mu.Lock()
	_, isPod := c.pods[id]
	known := c.knows(id)
	c.mu.Unlock()
	if known && !isPod {
		c.forget(id)
		return
	}
	record, err := c.opts.Records.Load(ctx, id)
	switch {
	case errdefs.IsNotFound(err) && known:
		c.forget(id)
	case errdefs.IsNotFound(err): // leave no tombstone for the many containers that are not ours
	case !known && err != nil:
		log.G(ctx).WithError(err).WithField("podSandboxID", id).Warn("cannot read checkpoint of pod sandbox without container")
	case !known:
		c.PutPod(orphan(ctx, record))
	default:
		c.UpdatePod(id, func(s *PodStatus) {
			s.Running, s.PID = false, 0
			if s.finishedAt.Before(s.StartedAt) || s.finishedAt.IsZero() {
				s.finishedAt = time.Now()
			}
		})
	}
}

// showOrphans publishes the pods that have a checkpoint but, at the first relist after a start, no engine container.
func (c *Cache) showOrphans(ctx context.Context, listed map[string]struct{}) {
	select {
	case <-c.synced:
		return // from now on vanished keeps them
	default:
	}
	records, _, err := c.opts.Records.List(ctx)
	if err != nil { // the records that could be read are there all the same
		log.G(ctx).WithError(err).Warn("cannot read all checkpoints")
	}
	for _, record := range records {
		if _, ok := listed[record.SandboxID]; !ok {
			c.PutPod(orphan(ctx, record))
		}
	}
}

// orphan is a pod of which only the checkpoint is left.
func orphan(ctx context.Context, record checkpoint.Record) Pod {
	pod := Pod{ID: record.SandboxID, Meta: PodMeta{CreatedAt: record.CreatedAt}}
	pod.Status.finishedAt = record.CreatedAt
	fromRecord(ctx, &pod, record)
	pod.Meta.Name = translate.SandboxName(pod.Meta.Config.GetMetadata())
	pod.Meta.HostNetwork = pod.Meta.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	return pod
}
