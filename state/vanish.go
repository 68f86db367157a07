package state

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
)

// vanished handles an id that the engine does not have. It passes containers to containerGone. A pod stays listed as
// NOTREADY while it has a checkpoint, even an unreadable one: it may still hold an address, and the kubelet stops and
// removes only pods that are listed. A pod that was never shown is also listed if its failed roll-back had already
// removed the sandbox container. A pod without a sandbox container counts as running while Options.Alive returns true.
func (c *Cache) vanished(ctx context.Context, id string) {
	now := c.Snapshot()
	pod := now.pod(id)
	isPod, lost := pod != nil, pod != nil && pod.Status.lost
	known := isPod || now.container(id) != nil
	if known && !isPod {
		c.containerGone(ctx, id)
		return
	}
	record, err := c.opts.Records.Load(ctx, id)
	switch {
	case errdefs.IsNotFound(err) && lost: // the pod stays until RemovePod
	case errdefs.IsNotFound(err) && known:
		c.forget(id)
	case errdefs.IsNotFound(err): // a container that is not ours needs no tombstone
	case !known && err != nil:
		log.G(ctx).WithError(err).WithField("podSandboxID", id).
			Warn("cannot read checkpoint of pod sandbox without container")
	case !known:
		c.PutPod(c.orphan(ctx, record))
	case pod.Status.Namespaces == nil:
		c.EndPod(id)
	default:
		c.lookAlive(ctx, pod)
	}
}

// lookAlive updates whether a known pod without a sandbox container runs. It uses the cache's entry, because the record
// may be unreadable.
func (c *Cache) lookAlive(ctx context.Context, pod *Pod) {
	alive, known := c.alive(ctx, checkpoint.Record{
		SandboxID: pod.ID, NetnsPath: pod.Status.NetnsPath, Namespaces: pod.Status.Namespaces,
		UserNamespace: pod.Status.UserNamespace,
	})
	switch {
	case !known, alive && pod.Status.Running:
	case alive:
		c.UpdatePod(pod.ID, (*PodStatus).revive)
	default:
		c.EndPod(pod.ID)
	}
}

// showOrphans publishes the pods and ended containers that have a checkpoint but no engine container.
func (c *Cache) showOrphans(ctx context.Context, listed map[string]struct{}) {
	listing, err := c.opts.Records.List(ctx)
	if err != nil { // the listing still has the readable records
		log.G(ctx).WithError(err).Warn("cannot read all checkpoints")
	}
	for _, record := range listing.Records {
		if _, ok := listed[record.SandboxID]; !ok {
			c.PutPod(c.orphan(ctx, record))
		}
		c.showKeptEnds(ctx, record, listed)
	}
	c.showHeads(ctx, listing.Refused)
}

// showHeads publishes pods whose record is lost or was written by a newer criadapter. It shows them as NOTREADY, and
// leaves out pods that the cache already has.
func (c *Cache) showHeads(ctx context.Context, heads []checkpoint.Record) {
	for _, head := range heads {
		if c.Snapshot().pod(head.SandboxID) != nil {
			continue
		}
		pod := PodOf(ctx, head)
		pod.Status.Running, pod.Status.NetworkReady = false, false
		pod.Status.finishedAt, pod.Status.lost = head.CreatedAt, true
		c.PutPod(pod)
	}
}

// showUninspected publishes pods whose sandbox container the engine lists but could not inspect yet. Their records
// describe them.
func (c *Cache) showUninspected(ctx context.Context, list []container.Summary) {
	for _, summary := range list {
		if translate.KindOf(summary) != translate.KindSandbox || c.Snapshot().pod(summary.ID) != nil {
			continue
		}
		record, err := c.opts.Records.Load(ctx, summary.ID)
		if err != nil {
			warnUnreadable(ctx, summary.ID, err)
			continue
		}
		pod := PodOf(ctx, record)
		if summary.State != container.StateRunning && summary.State != container.StatePaused {
			pod.Status.Running, pod.Status.finishedAt = false, record.CreatedAt
		}
		c.PutPod(pod)
	}
}

// showLost publishes pods that have neither a record nor a sandbox container as NOTREADY. They still have namespaces or
// containers, so the kubelet must stop and remove them. It runs after showOrphans.
func (c *Cache) showLost(ctx context.Context, list []container.Summary) {
	if c.opts.Unrecorded != nil {
		c.showHeads(ctx, c.opts.Unrecorded())
	}
	for _, summary := range list {
		for _, name := range summary.Names {
			config, id, ok := translate.PodOfContainer(summary.Labels, name)
			if !ok || c.Snapshot().pod(id) != nil || c.Snapshot().container(summary.ID) == nil {
				continue
			}
			created := time.Unix(summary.Created, 0)
			pod := Pod{ID: id,
				Meta: PodMeta{Name: translate.SandboxName(config.GetMetadata()), Config: config, CreatedAt: created}}
			pod.Status.finishedAt, pod.Status.lost = created, true
			c.PutPod(pod)
		}
	}
}

// orphan returns the entry of a pod that has no sandbox container in the engine.
func (c *Cache) orphan(ctx context.Context, record checkpoint.Record) Pod {
	pod := PodOf(ctx, record)
	if alive, known := c.alive(ctx, record); known && !alive {
		pod.Status.Running = false
		pod.Status.finishedAt = record.CreatedAt
	}
	return pod
}

// alive calls Options.Alive. known is false after an error.
func (c *Cache) alive(ctx context.Context, record checkpoint.Record) (alive, known bool) {
	if record.Namespaces == nil {
		return false, true
	}
	alive, err := c.opts.Alive(record)
	if err != nil {
		log.G(ctx).WithError(err).WithField("podSandboxID", record.SandboxID).
			Warn("cannot look at the pod's namespaces, leaving the pod's state as it was until the next look")
	}
	return alive, err == nil
}

// PodOf returns the entry that a record describes, as a running pod. It needs no inspect of a sandbox container.
func PodOf(ctx context.Context, record checkpoint.Record) Pod {
	pod := Pod{ID: record.SandboxID, Meta: PodMeta{CreatedAt: record.CreatedAt}}
	pod.Status.Running = true
	if record.Namespaces != nil {
		pod.Status.StartedAt = record.CreatedAt
	}
	fromRecord(ctx, &pod, record)
	pod.Meta.Name = translate.SandboxName(pod.Meta.Config.GetMetadata())
	pod.Meta.HostNetwork = translate.UsesHostNetwork(pod.Meta.Config)
	return pod
}
