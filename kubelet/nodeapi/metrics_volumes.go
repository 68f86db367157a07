package nodeapi

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// volumeMetrics are the metrics of claims, under the kubelet's names.
var volumeMetrics = []struct {
	name, help string
	value      func(*statsapi.FsStats) *uint64
}{
	{"capacity_bytes", "Capacity in bytes of the volume", func(f *statsapi.FsStats) *uint64 { return f.CapacityBytes }},
	{"available_bytes", "Number of available bytes in the volume",
		func(f *statsapi.FsStats) *uint64 { return f.AvailableBytes }},
	{"used_bytes", "Number of used bytes in the volume", func(f *statsapi.FsStats) *uint64 { return f.UsedBytes }},
	{"inodes", "Maximum number of inodes in the volume", func(f *statsapi.FsStats) *uint64 { return f.Inodes }},
	{"inodes_free", "Number of free inodes in the volume", func(f *statsapi.FsStats) *uint64 { return f.InodesFree }},
	{"inodes_used", "Number of used inodes in the volume", func(f *statsapi.FsStats) *uint64 { return f.InodesUsed }},
}

// volumes writes the number of volumes by kind, and the filesystems of claims.
func (s *reads) volumes(ctx context.Context, out *exposition, pods []*v1.Pod) {
	kinds := map[string]int{}
	claims := map[statsapi.PVCReference]*statsapi.FsStats{}
	for _, pod := range pods {
		for i := range pod.Spec.Volumes {
			if kind, err := volumekinds.Of(&pod.Spec.Volumes[i].VolumeSource); err == nil {
				kinds[kind.Plugin()]++
			}
		}
		for _, volume := range s.claimStats(ctx, pod) {
			claims[*volume.PVCRef] = &volume.FsStats
		}
	}
	total := out.family("volume_manager_total_volumes", gauge, "Number of volumes of pods by kind.")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		total.sample(float64(kinds[kind]), time.Time{}, label{"plugin_name", kind},
			label{"state", "desired_state_of_world"})
	}
	refs := slices.SortedFunc(maps.Keys(claims), func(a, b statsapi.PVCReference) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, metric := range volumeMetrics {
		family := out.family("kubelet_volume_stats_"+metric.name, gauge, metric.help)
		for _, ref := range refs {
			if value := metric.value(claims[ref]); value != nil {
				family.sample(float64(*value), time.Time{}, label{"namespace", ref.Namespace},
					label{"persistentvolumeclaim", ref.Name})
			}
		}
	}
}
