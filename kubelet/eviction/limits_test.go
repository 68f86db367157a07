package eviction

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/podstats"
)

// limited sets the ephemeral-storage limits of the pod's containers, in order. An empty text sets no limit.
func limited(pod *v1.Pod, limits ...string) *v1.Pod {
	for i, limit := range limits {
		if limit != "" {
			pod.Spec.Containers[i].Resources.Limits = v1.ResourceList{
				v1.ResourceEphemeralStorage: resource.MustParse(limit)}
		}
	}
	return pod
}

// withEmptyDir adds an emptyDir. An empty text sets no limit.
func withEmptyDir(pod *v1.Pod, name, limit string) *v1.Pod {
	source := &v1.EmptyDirVolumeSource{}
	if limit != "" {
		source.SizeLimit = new(resource.MustParse(limit))
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: source}})
	return pod
}

func TestOverLimit(t *testing.T) {
	const mi = 1 << 20
	two := func() *v1.Pod { return modeltest.Pod(v1.RestartPolicyAlways, "app:a app:b") }
	first := func(kind string) *v1.Pod { // a is an init container or a sidecar
		pod := limited(modeltest.Pod(v1.RestartPolicyAlways, kind+":a app:b"), "9Mi")
		pod.Spec.InitContainers[0].Resources.Limits = v1.ResourceList{
			v1.ResourceEphemeralStorage: resource.MustParse("2Mi")}
		return pod
	}
	uses := func(layer, logs, volume int64) podstats.Pod {
		return podstats.Pod{
			Containers: map[string]podstats.Container{
				"a": {WritableLayer: podstats.Disk{Bytes: layer}, Logs: podstats.Disk{Bytes: logs}}},
			Volumes: map[string]podstats.Disk{"v": {Bytes: volume}},
		}
	}
	for _, test := range []struct {
		name  string
		pod   *v1.Pod
		stats podstats.Pod
		want  string
	}{
		{"no limits", withEmptyDir(two(), "v", ""), uses(9*mi, 9*mi, 9*mi), ""},
		{"nothing is known", limited(withEmptyDir(two(), "v", "1Mi"), "1Mi"), podstats.Pod{}, ""},
		{"volume at its limit", withEmptyDir(two(), "v", "1Mi"), uses(0, 0, mi), ""},
		{"volume over it", withEmptyDir(two(), "v", "1Mi"), uses(0, 0, mi+1),
			`Usage of EmptyDir volume "v" exceeds the limit "1Mi".`},
		{"volume with a limit of 0", withEmptyDir(two(), "v", "0"), uses(0, 0, mi), ""},
		{"other volume", withEmptyDir(two(), "w", "1Mi"), uses(0, 0, 9*mi), ""},
		{"pod at its limit", limited(withEmptyDir(two(), "v", ""), "1Mi", "2Mi"), uses(mi, 0, 2*mi), ""},
		{"pod over it", limited(withEmptyDir(two(), "v", ""), "1Mi", "2Mi"), uses(mi, 0, 2*mi+1),
			"Pod ephemeral local storage usage exceeds the total limit of containers 3Mi."},
		{"one container has no limit", limited(withEmptyDir(two(), "v", ""), "", "1Mi"), uses(mi, 0, 1),
			"Pod ephemeral local storage usage exceeds the total limit of containers 1Mi."},
		{"volume before pod", limited(withEmptyDir(two(), "v", "1500k"), "1Mi"), uses(9*mi, 9*mi, 9*mi),
			`Usage of EmptyDir volume "v" exceeds the limit "1500k".`},
		{"container at its limit", limited(two(), "2Mi", "2Mi"), uses(mi, mi, 0), ""},
		{"container over it by its layer", limited(two(), "2Mi", "2Mi"), uses(2*mi+1, 0, 0),
			`Container a exceeded its local ephemeral storage limit "2Mi".`},
		{"container over it by its logs", limited(two(), "2Mi", "2Mi"), uses(mi, mi+1, 0),
			`Container a exceeded its local ephemeral storage limit "2Mi".`},
		{"sidecar over it", first("side"), uses(2*mi+1, 0, 0),
			`Container a exceeded its local ephemeral storage limit "2Mi".`},
		{"init container over it", first("init"), uses(2*mi+1, 0, 0), ""},
		{"container is not charged for volumes", limited(two(), "2Mi", "2Mi"), uses(mi, 0, 2*mi), ""},
		{"pod before container", limited(two(), "2Mi", "2Mi"), uses(4*mi, 1, 0),
			"Pod ephemeral local storage usage exceeds the total limit of containers 4Mi."},
	} {
		t.Run(test.name, func(t *testing.T) {
			of, message := overLimit(test.pod, test.stats)
			testutil.Equal(t, message, test.want, "overLimit")
			testutil.Equal(t, of != "", test.want != "", "a signal")
		})
	}
}
