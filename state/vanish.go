package state

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker/translate"
)

// vanished takes note that the engine has no such container (any more). A container is forgotten. A pod stays,
// NOTREADY, for as long as it has a checkpoint, also one that cannot be read now: it may still hold an address, and
// only a pod that is listed will be stopped and removed by the kubelet. So does one that was never shown, because its
// roll-back took the container away and then failed. A pod that has no sandbox container runs for as long as it is
// alive without.
func (c *Cache) vanished(ctx context.Context, id string) {
	now := c.Snapshot()
	pod := now.pod(id)
	isPod, lost := pod != nil, pod != nil && pod.Status.lost
	known := isPod || now.container(id) != nil
	if known && !isPod {
		c.forget(id)
		return
	}
	record, err := c.opts.Records.Load(ctx, id)
	switch {
	case errdefs.IsNotFound(err) && lost: // until it is removed
	case errdefs.IsNotFound(err) && known:
		c.forget(id)
	case errdefs.IsNotFound(err): // leave no tombstone for the many containers that are not ours
	case !known && err != nil:
		log.G(ctx).WithError(err).WithField("podSandboxID", id).Warn("cannot read checkpoint of pod sandbox without container")
	case !known:
		c.PutPod(c.orphan(ctx, record))
	case pod.Status.Namespaces == nil:
		c.EndPod(id)
	default:
		c.lookAlive(ctx, pod)
	}
}

// lookAlive looks whether a known pod without a sandbox container still runs, by what memory holds of it. One that was
// taken for dead and is not is shown as running again.
func (c *Cache) lookAlive(ctx context.Context, pod *Pod) {
	alive, known := c.alive(ctx, checkpoint.Record{
		SandboxID: pod.ID, NetnsPath: pod.Status.NetnsPath, Namespaces: pod.Status.Namespaces, UserNamespace: pod.Status.UserNamespace,
	})
	switch {
	case !known, alive && pod.Status.Running:
	case alive:
		c.UpdatePod(pod.ID, (*PodStatus).revive)
	default:
		c.EndPod(pod.ID)
	}
}

// showOrphans publishes the pods that have a checkpoint but, at the first relist after a start, no engine container.
func (c *Cache) showOrphans(ctx context.Context, listed map[string]struct{}) {
	select {
	case <-c.synced:
		return // from now on vanished keeps them
	default:
	}
	listing, err := c.opts.Records.List(ctx)
	if err != nil { // the records that could be read are there all the same
		log.G(ctx).WithError(err).Warn("cannot read all checkpoints")
	}
	for _, record := range listing.Records {
		if _, ok := listed[record.SandboxID]; !ok {
			c.PutPod(c.orphan(ctx, record))
		}
	}
	c.showHeads(ctx, listing.Refused)
}

// showHeads publishes pods that are known from a part of their record alone, as NOTREADY.
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

// showLost publishes pods whose record was lost and that have no sandbox container (any more), as NOTREADY: they have
// namespaces, or containers, and somebody has to stop and remove them. It follows showOrphans.
func (c *Cache) showLost(ctx context.Context, list []container.Summary) {
	select {
	case <-c.synced:
		return
	default:
	}
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
			pod := Pod{ID: id, Meta: PodMeta{Name: translate.SandboxName(config.GetMetadata()), Config: config, CreatedAt: created}}
			pod.Status.finishedAt, pod.Status.lost = created, true
			c.PutPod(pod)
		}
	}
}

// orphan is a pod that the engine does not have: only its record is left, or it is alive without a sandbox container.
func (c *Cache) orphan(ctx context.Context, record checkpoint.Record) Pod {
	pod := PodOf(ctx, record)
	if alive, known := c.alive(ctx, record); known && !alive {
		pod.Status.Running = false
		pod.Status.finishedAt = record.CreatedAt
	}
	return pod
}

// alive asks Options.Alive. What it cannot tell is not known.
func (c *Cache) alive(ctx context.Context, record checkpoint.Record) (alive, known bool) {
	if record.Namespaces == nil {
		return false, true
	}
	alive, err := c.opts.Alive(record)
	if err != nil {
		log.G(ctx).WithError(err).WithField("podSandboxID", record.SandboxID).Warn("cannot look at the pod's namespaces, leaving it as it was until the next look")
	}
	return alive, err == nil
}

// PodOf makes the cache's entry of a running pod without a sandbox container.
func PodOf(ctx context.Context, record checkpoint.Record) Pod {
	pod := Pod{ID: record.SandboxID, Meta: PodMeta{CreatedAt: record.CreatedAt}}
	pod.Status.Running = true
	if record.Namespaces != nil {
		pod.Status.StartedAt = record.CreatedAt
	}
	fromRecord(ctx, &pod, record)
	pod.Meta.Name = translate.SandboxName(pod.Meta.Config.GetMetadata())
	pod.Meta.HostNetwork = pod.Meta.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
	return pod
}
