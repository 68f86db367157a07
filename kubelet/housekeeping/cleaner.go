package housekeeping

import (
	"context"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/admission"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/cri"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/pleg"
	"github.com/criadapter/criadapter/kubelet/podworkers"
	"github.com/criadapter/criadapter/kubelet/status"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// PodConfig has the pods that the sources list. *podconfig.PodConfig implements it.
type PodConfig interface {
	// Only the goroutine that handles the updates may call Settled. All goroutines may call SeenAllSources and HasPod.
	Settled() bool
	SeenAllSources() bool
	HasPod(uid types.UID) bool
}

// CleanerOptions configure a Cleaner. All are required.
type CleanerOptions struct {
	PodConfig  PodConfig
	PLEG       *pleg.Generator
	Cache      *pleg.Cache
	Workers    *podworkers.Workers
	Rejections *admission.Rejections
	Status     *status.Manager
	Volumes    *volumemanager.Manager
	Cgroups    *cgroup.Manager
}

// Cleaner cleans up after pods. Only the goroutine that handles the updates of PodConfig may call Clean; Finished is
// safe for concurrent use.
type Cleaner struct {
	opts CleanerOptions
}

// NewCleaner makes a Cleaner.
func NewCleaner(opts CleanerOptions) *Cleaner { return &Cleaner{opts: opts} }

// Clean ends running pods that no source lists, and forgets pods that are gone. Until all sources have listed their
// pods and the updates are handled, Clean ends only earlier versions of static pods. A late source may still list the
// other running pods.
func (c *Cleaner) Clean(ctx context.Context) {
	settled := c.opts.PodConfig.Settled()
	// Pods may end between the two lists, so stillRuns checks. No pod can be added between them: only this goroutine
	// adds pods.
	running, known := c.opts.PLEG.Pods(), c.opts.Workers.Pods()
	replaced := replacedNames(known)
	for uid, pod := range running {
		if _, ok := known[uid]; ok || !pod.Running() {
			continue
		}
		unwanted := settled || replaced[pod.FullName()] && !c.opts.PodConfig.HasPod(uid)
		if unwanted && c.stillRuns(ctx, uid) {
			c.endUnwanted(pod)
		}
	}
	if !settled {
		return
	}
	c.opts.Rejections.Keep(c.opts.PodConfig.HasPod)
	for uid, pod := range running {
		// If an earlier process ended the pod, its call of Forget is lost: Forget changes only memory.
		if _, ok := known[uid]; !ok && !pod.Running() && !c.opts.PodConfig.HasPod(uid) {
			c.opts.Workers.Forget(uid)
		}
	}
	for _, pod := range c.opts.Status.List() {
		if _, ok := known[pod.UID]; !ok && !c.opts.Rejections.Has(pod.UID) {
			c.opts.Status.Forget(pod.UID)
			c.opts.Cache.Forget(pod.UID)
		}
	}
	c.clear(ctx, "volumes", c.opts.Volumes.Pods, running)
	c.clear(ctx, "cgroup", c.opts.Cgroups.Pods, running)
}

// replacedNames has the full names that static pods wait for. Clean frees these names before all sources have listed
// their pods. Otherwise the new version of the API server's static pod could never start: the missing source may be the
// API server itself.
func replacedNames(known map[types.UID]podworkers.Pod) map[string]bool {
	names := map[string]bool{}
	for _, pod := range known {
		if pod.State == podworkers.Waiting && model.IsStatic(pod.Pod) {
			names[model.FullName(pod.Pod)] = true
		}
	}
	return names
}

// Finished says whether the pod's worker is done: the containers have ended, and volumes and cgroup are removed. A pod
// without a worker is finished if the node rejected it, and the last list does not show it running.
func (c *Cleaner) Finished(uid types.UID) bool {
	if c.opts.Workers.Has(uid) {
		return c.opts.Workers.Finished(uid)
	}
	pod := c.opts.PLEG.Pods()[uid]
	return c.opts.Rejections.Has(uid) && (pod == nil || !pod.Running())
}

// endUnwanted ends a running pod that no source lists, or that the node has rejected.
func (c *Cleaner) endUnwanted(pod *cri.Pod) {
	if rejected := c.opts.Rejections.Get(pod.UID); rejected != nil {
		c.opts.Workers.Terminate(rejected, podworkers.Termination{Reason: "the node rejected the pod"})
		return
	}
	c.opts.Workers.Terminate(orphan(pod), podworkers.Termination{Reason: "no source names the pod", Gone: true})
}

// orphan is a pod that only the runtime knows.
func orphan(pod *cri.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}}
}

// stillRuns asks the runtime, because the last list may be older than the pod's end.
func (c *Cleaner) stillRuns(ctx context.Context, uid types.UID) bool {
	status, err := c.opts.Cache.Refresh(ctx, uid)
	return err == nil && status.Alive()
}

// clear removes leftovers of one kind, of pods that ended while no kubelet ran. Workers remove them, because that may
// take long. clear lists the leftovers before Workers.Clear checks which pods are known: a pod becomes known before it
// has volumes or cgroups.
func (c *Cleaner) clear(
	ctx context.Context, what string, list func() ([]types.UID, error), running map[types.UID]*cri.Pod,
) {
	uids, err := list()
	if err != nil {
		log.G(ctx).WithError(err).WithField("leftovers", what).Warn("leftovers of pods cannot be listed")
		return
	}
	for _, uid := range uids {
		if running[uid] == nil || !running[uid].Running() {
			c.opts.Workers.Clear(uid)
		}
	}
}
