package kubelet

import (
	"context"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/cri"
)

// newCgroups asks the runtime how it makes cgroups; driver is for one that does not tell.
func newCgroups(ctx context.Context, runtime *cri.Runtime, root string, driver cgroup.Driver) *cgroup.Manager {
	opts := cgroup.Options{Root: root, Driver: driver}
	answer, err := runtime.RuntimeConfig(ctx)
	if err == nil && answer.GetLinux() != nil {
		switch answer.GetLinux().GetCgroupDriver() {
		case runtimeapi.CgroupDriver_SYSTEMD:
			opts.Driver = cgroup.Systemd
		case runtimeapi.CgroupDriver_CGROUPFS:
			opts.Driver = cgroup.Cgroupfs
		}
	}
	return cgroup.New(ctx, opts) // without a driver everything is left to the runtime, as it is with one that does not say
}

// removeCgroups removes the cgroups of pods that ended while no kubelet ran. A pod is known before it gets a cgroup, so
// asking after the list is made finds every pod that is in it.
func (k *Kubelet) removeCgroups(ctx context.Context, running map[types.UID]*cri.Pod) {
	uids, err := k.cgroups.Pods()
	if err != nil {
		logrus.WithError(err).Warn("The pods' cgroups cannot be listed")
		return
	}
	for _, uid := range uids {
		if k.exists(uid) || running[uid] != nil && running[uid].Running() {
			continue
		}
		if err := k.cgroups.Remove(ctx, uid); err != nil {
			logrus.WithError(err).WithField("uid", uid).Warn("The cgroup of a pod that is gone cannot be removed yet")
		}
	}
}
