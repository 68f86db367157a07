package eviction

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// usage is what a pod uses of what the node is short of.
type usage struct {
	// known is false for a pod of which there are no stats.
	known         bool
	used, request int64
}

// rank sorts pods, the one to be evicted first: those of which nothing is known, those that use more than they
// requested, those of the lowest priority, and at last those that use most beyond their requests.
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
			cmp.Compare(priority(a), priority(b)),
			cmp.Compare(y.used-y.request, x.used-x.request),
		)
	})
}

// first puts the one before the other of which something is true.
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

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// memoryUsage is a pod's working set.
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

// storageUsage is what a pod has in the places that the signal's file system has: bytes, or inodes, which nobody requests.
func storageUsage(stats map[types.UID]podstats.Pod, of signal, in places) func(*v1.Pod) usage {
	return func(pod *v1.Pod) usage {
		found, known := stats[pod.UID]
		disk := diskUsage(found, in)
		if of.resource() == resourceInodes {
			return usage{known: known, used: disk.Inodes}
		}
		requests := model.PodResources(pod).Requests
		return usage{known: known, used: disk.Bytes, request: requests.StorageEphemeral().Value()}
	}
}

// placesOf are the places in the file system of a signal. Images that have one of their own share it with the writable
// layers alone.
func placesOf(of signal, dedicatedImageDisk bool) places {
	if !dedicatedImageDisk {
		return everything
	}
	if of == imagefsAvailable || of == imagefsInodesFree {
		return places{writableLayers: true}
	}
	return places{logs: true, volumes: true}
}
