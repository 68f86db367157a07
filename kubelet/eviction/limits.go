package eviction

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// overLimit returns the kubelet's signal and message for a limit of local storage that a pod exceeds, or "". Volumes
// are checked first, then the pod, then its containers.
func overLimit(pod *v1.Pod, stats podstats.Pod) (of, message string) {
	for _, check := range []struct {
		signal string
		over   func(*v1.Pod, podstats.Pod) string
	}{
		{"emptydirfs.limit", volumeOverLimit}, {"ephemeralpodfs.limit", podOverLimit},
		{"ephemeralcontainerfs.limit", containerOverLimit},
	} {
		if message := check.over(pod, stats); message != "" {
			return check.signal, message
		}
	}
	return "", ""
}

// volumeOverLimit compares each emptyDir on disk with its sizeLimit. An emptyDir in memory cannot exceed its limit: the
// limit is the size of its tmpfs.
func volumeOverLimit(pod *v1.Pod, stats podstats.Pod) string {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		used, ok := stats.Volumes[volume.Name]
		if !ok || volume.EmptyDir == nil || volume.EmptyDir.SizeLimit == nil {
			continue
		}
		if limit := volume.EmptyDir.SizeLimit; limit.Sign() > 0 && limit.CmpInt64(used.Bytes) < 0 {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q.", volume.Name, limit.String())
		}
	}
	return ""
}

// podOverLimit compares the pod's disk usage with the sum of its containers' limits.
func podOverLimit(pod *v1.Pod, stats podstats.Pod) string {
	limit, ok := model.PodTotals(pod).Limits[v1.ResourceEphemeralStorage]
	if !ok || limit.CmpInt64(stats.DiskUsage(podstats.Everything).Bytes) >= 0 {
		return ""
	}
	return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s.", limit.String())
}

// containerOverLimit compares the writable layer and the logs of each app container and sidecar with its limit.
func containerOverLimit(pod *v1.Pod, stats podstats.Pod) (message string) {
	model.EachContainer(&pod.Spec, func(c *v1.Container, kind model.Kind) {
		limit, ok := c.Resources.Limits[v1.ResourceEphemeralStorage]
		of := stats.Containers[c.Name]
		used := of.WritableLayer.Plus(of.Logs).Bytes
		if message == "" && kind != model.Init && ok && !limit.IsZero() && limit.CmpInt64(used) < 0 {
			message = fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q.", c.Name, limit.String())
		}
	})
	return message
}

// bytes is an amount in the format of messages.
func bytes(amount int64) *resource.Quantity { return resource.NewQuantity(amount, resource.BinarySI) }
