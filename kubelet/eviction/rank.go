package eviction

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// usage is a pod's usage of the scarce resource.
type usage struct {
	// known is false for a pod without stats.
	known         bool
	used, request int64
	// tie decides between pods that are equal otherwise: the pod with the larger tie comes first.
	tie int64
}

// rank sorts pods in the order of their eviction. Pods without stats come first, then pods above their request, then
// the others. Within each of these groups, a lower priority comes first, and then a larger excess over the request.
func rank(pods []*v1.Pod, of func(*v1.Pod) usage) []*v1.Pod {
	uses := map[types.UID]usage{}
	for _, pod := range pods {
		uses[pod.UID] = of(pod)
	}
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *v1.Pod) int {
		x, y := uses[a.UID], uses[b.UID]
		return cmp.Or(
			first(!x.known, !y.known),
			first(x.used > x.request, y.used > y.request),
			cmp.Compare(ptr.Deref(a.Spec.Priority, 0), ptr.Deref(b.Spec.Priority, 0)),
			cmp.Compare(y.used-y.request, x.used-x.request),
			cmp.Compare(y.tie, x.tie),
		)
	})
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// usageOf returns a function for a pod's usage of the signal's resource.
func usageOf(of signal, stats map[types.UID]podstats.Pod, dedicatedImageDisk bool) func(*v1.Pod) usage {
	switch of.condition() {
	case v1.NodeMemoryPressure:
		return memoryUsage(stats)
	case v1.NodePIDPressure:
		return pidUsage(stats)
	}
	return storageUsage(stats, of, placesOf(of, dedicatedImageDisk))
}

// pidUsage returns a function for the number of a pod's processes and threads. As in the kubelet, a pod's priority
// comes first: request equals used, so that no pod is above its request.
func pidUsage(stats map[types.UID]podstats.Pod) func(*v1.Pod) usage {
	return func(pod *v1.Pod) usage {
		used := stats[pod.UID].Processes
		return usage{known: true, used: used, request: used, tie: used}
	}
}

// memoryUsage compares pods' working sets with their memory requests.
func memoryUsage(stats map[types.UID]podstats.Pod) func(*v1.Pod) usage {
	return func(pod *v1.Pod) usage {
		memory := stats[pod.UID].Memory
		if memory == nil {
			return usage{}
		}
		requests := model.PodResources(pod).Requests
		return usage{known: true, used: *memory, request: requests.Memory().Value()}
	}
}

// storageUsage returns a function for the usage of the signal's file system, in bytes or inodes. Pods do not request
// inodes.
func storageUsage(stats map[types.UID]podstats.Pod, of signal, in podstats.Places) func(*v1.Pod) usage {
	return func(pod *v1.Pod) usage {
		found, known := stats[pod.UID]
		disk := found.DiskUsage(in)
		if of.resource() == resourceInodes {
			return usage{known: known, used: disk.Inodes}
		}
		requests := model.PodResources(pod).Requests
		return usage{known: known, used: disk.Bytes, request: requests.StorageEphemeral().Value()}
	}
}

// placesOf returns the places on the file system of a signal. If images have their own file system, writable layers are
// on it, and logs and volumes are not.
func placesOf(of signal, dedicatedImageDisk bool) podstats.Places {
	if !dedicatedImageDisk {
		return podstats.Everything
	}
	if of == imagefsAvailable || of == imagefsInodesFree {
		return podstats.Places{WritableLayers: true}
	}
	return podstats.Places{Logs: true, Volumes: true}
}
