package nodeapi

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/criadapter/criadapter/kubelet/podstats"
)

// diskStats adds the use of the local disk to a pod's stats: volumes, logs, and the sum with the writable layers. node
// and logs are the filesystems of volumes and logs.
func (s *reads) diskStats(ctx context.Context, out *statsapi.PodStats, pod *v1.Pod, node, logs *statsapi.FsStats) {
	used, ok := s.Usage()[pod.UID]
	if !ok {
		return
	}
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(used.Volumes)) {
		out.VolumeStats = append(out.VolumeStats,
			statsapi.VolumeStats{Name: name, FsStats: *usedOf(node, used.Volumes[name], now)})
	}
	out.VolumeStats = append(out.VolumeStats, s.claimStats(ctx, pod)...)
	for i := range out.Containers {
		of := used.Containers[out.Containers[i].Name]
		out.Containers[i].Logs = usedOf(logs, of.Logs, now)
	}
	out.EphemeralStorage = usedOf(node, used.DiskUsage(podstats.Everything), now)
}

// usedOf returns the stats of a part of a filesystem. The filesystem may be nil.
func usedOf(filesystem *statsapi.FsStats, used podstats.Disk, now time.Time) *statsapi.FsStats {
	out := &statsapi.FsStats{}
	if filesystem != nil {
		*out = *filesystem
	}
	out.Time = metav1.NewTime(now)
	out.UsedBytes, out.InodesUsed = new(uint64(used.Bytes)), new(uint64(used.Inodes))
	return out
}

// claimStats returns the stats of the filesystems that the pod's claims are on.
func (s *reads) claimStats(ctx context.Context, pod *v1.Pod) (stats []statsapi.VolumeStats) {
	paths := s.ClaimPaths(pod)
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		path, ok := paths[volume.Name]
		if !ok {
			continue
		}
		if filesystem := fsStats(ctx, path, time.Now()); filesystem != nil {
			stats = append(stats, statsapi.VolumeStats{Name: volume.Name, FsStats: *filesystem,
				PVCRef: &statsapi.PVCReference{
					Name:      volume.PersistentVolumeClaim.ClaimName,
					Namespace: cmp.Or(pod.Namespace, v1.NamespaceDefault),
				}})
		}
	}
	return stats
}
