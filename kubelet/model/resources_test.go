package model

import (
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// amounts parses "cpu=1 memory=2Gi".
func amounts(text string) v1.ResourceList {
	list := v1.ResourceList{}
	for _, field := range strings.Fields(text) {
		name, amount, _ := strings.Cut(field, "=")
		list[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

func text(list v1.ResourceList) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		amount := list[name]
		fields = append(fields, string(name)+"="+amount.String())
	}
	return strings.Join(fields, " ")
}

func limited(requests, limits string) v1.Container {
	return v1.Container{Resources: v1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}
}

func own(requests, limits string) *v1.ResourceRequirements {
	return &v1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}
}

func sidecar(c v1.Container) v1.Container {
	c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	return c
}

func TestPodResources(t *testing.T) {
	for _, c := range []struct {
		name             string
		spec             v1.PodSpec
		requests, limits string
	}{
		{"nothing", v1.PodSpec{Containers: []v1.Container{{}}}, "", ""},
		{"sum",
			v1.PodSpec{
				Containers: []v1.Container{limited("cpu=1", "cpu=2 memory=1Gi"),
					limited("cpu=500m memory=1Gi", "memory=1Gi")}},
			"cpu=1500m memory=1Gi", "memory=2Gi"},
		{"an init container needs more", v1.PodSpec{
			InitContainers: []v1.Container{limited("cpu=3", "cpu=4"), limited("cpu=2", "cpu=2")},
			Containers:     []v1.Container{limited("cpu=1", "cpu=1")}},
			"cpu=3", "cpu=4"},
		{"sidecars run beside all that comes after", v1.PodSpec{
			InitContainers: []v1.Container{limited("cpu=3", ""), sidecar(limited("cpu=2", "")), limited("cpu=2", "")},
			Containers:     []v1.Container{limited("cpu=1", "")}},
			"cpu=4", ""},
		{"the pod's own", v1.PodSpec{
			Resources:  own("cpu=3", "cpu=4 memory=2Gi"),
			Containers: []v1.Container{limited("cpu=1 memory=1Gi", "cpu=2 ephemeral-storage=1Gi"), {}},
			Overhead:   amounts("cpu=1")},
			"cpu=4 memory=1Gi", "cpu=5 memory=2Gi"},
		{"overhead",
			v1.PodSpec{Overhead: amounts("cpu=1 memory=1Gi"),
				Containers: []v1.Container{limited("cpu=1", "memory=1Gi")}},
			"cpu=2 memory=1Gi", "memory=2Gi"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.spec.DeepCopy()
			got := PodResources(&v1.Pod{Spec: c.spec})
			testutil.Assert(t, text(got.Requests) == c.requests && text(got.Limits) == c.limits,
				"got %s and %s, want %s and %s", text(got.Requests), text(got.Limits), c.requests, c.limits)
			for i := range before.Containers {
				if text(before.Containers[i].Resources.Requests) != text(c.spec.Containers[i].Resources.Requests) {
					t.Error("the pod was changed")
				}
			}
		})
	}
}

func TestQOS(t *testing.T) {
	for _, c := range []struct {
		name       string
		containers []v1.Container
		want       v1.PodQOSClass
	}{
		{"nothing", []v1.Container{{}}, v1.PodQOSBestEffort},
		{"other resources", []v1.Container{limited("hugepages-2Mi=2Mi", "hugepages-2Mi=2Mi")}, v1.PodQOSBestEffort},
		{"both limits", []v1.Container{limited("", "cpu=1 memory=1Gi")}, v1.PodQOSGuaranteed},
		{"the same requests", []v1.Container{limited("cpu=1000m memory=1Gi", "cpu=1 memory=1Gi")}, v1.PodQOSGuaranteed},
		{"less", []v1.Container{limited("cpu=500m memory=1Gi", "cpu=1 memory=1Gi")}, v1.PodQOSBurstable},
		{"requests of zero", []v1.Container{limited("cpu=0 memory=0", "cpu=1 memory=1Gi")}, v1.PodQOSBurstable},
		{"one limit", []v1.Container{limited("", "cpu=1")}, v1.PodQOSBurstable},
		{"one container of two", []v1.Container{limited("", "cpu=1 memory=1Gi"), {}}, v1.PodQOSBurstable},
		{"a request", []v1.Container{limited("memory=1Gi", "")}, v1.PodQOSBurstable},
	} {
		testutil.Equal(t, QOS(&v1.Pod{Spec: v1.PodSpec{Containers: c.containers}}), c.want, "%s", c.name)
		testutil.Equal(t, QOS(&v1.Pod{Spec: v1.PodSpec{InitContainers: c.containers}}), c.want, "%s, init", c.name)
	}
}

// TestQOSOfThePodsOwnResources: resources of containers do not count beside the pod's own.
func TestQOSOfThePodsOwnResources(t *testing.T) {
	for _, c := range []struct {
		resources *v1.ResourceRequirements
		want      v1.PodQOSClass
	}{
		{own("", "cpu=1 memory=1Gi"), v1.PodQOSGuaranteed}, {own("cpu=1", ""), v1.PodQOSBurstable},
		{own("", ""), v1.PodQOSBestEffort},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Resources: c.resources, Containers: []v1.Container{{}}}}
		testutil.Equal(t, QOS(pod), c.want, "%v", c.resources)
	}
	more := []v1.Container{limited("", "cpu=1 memory=1Gi")}
	pod := &v1.Pod{Spec: v1.PodSpec{Resources: own("", "cpu=1"), Containers: more}}
	testutil.Equal(t, QOS(pod), v1.PodQOSBurstable, "class of a pod whose container has more limits")
}

func TestContainerResources(t *testing.T) {
	c := limited("cpu=1", "memory=1Gi")
	pod := &v1.Pod{Spec: v1.PodSpec{Resources: own("memory=2Gi", "cpu=2 memory=2Gi")}}
	got := ContainerResources(pod, &c)
	testutil.Equal(t, text(got.Requests), "cpu=1", "requests")
	testutil.Equal(t, text(got.Limits), "cpu=2 memory=1Gi", "limits")
	testutil.Equal(t, text(c.Resources.Limits), "memory=1Gi", "limits of the container afterwards")
	field, err := ResourceField(pod, &c, &v1.ResourceFieldSelector{Resource: "limits.cpu"}, amounts("cpu=8"))
	testutil.Assert(t, err == nil && field == "2", "limits.cpu is %s, %v", field, err)
}

func TestPodField(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "web", Namespace: "shop", UID: "u", Labels: map[string]string{"b": "2", "a": "x\"y"},
		Annotations: map[string]string{"Example.com/A[b]": "v"},
	}}
	for path, want := range map[string]string{
		"metadata.name": "web", "metadata.namespace": "shop", "metadata.uid": "u",
		"metadata.labels":      "a=\"x\\\"y\"\nb=\"2\"",
		"metadata.labels['a']": "x\"y", "metadata.labels['none']": "", "metadata.annotations": `Example.com/A[b]="v"`,
	} {
		got, err := PodField(pod, path)
		testutil.Assert(t, err == nil && got == want, "%s: got %q, %v; want %q", path, got, err, want)
	}
	for _, path := range []string{"", "metadata", "spec.nodeName", "status.podIP", "metadata.labels[a]",
		"metadata.labels['-']", "metadata.name['x']", "['x']"} {
		got, err := PodField(pod, path)
		testutil.Assert(t, err != nil, "%s: got %q, want an error", path, got)
	}
}

func FuzzSubscript(f *testing.F) {
	for _, seed := range []string{"", "a", "a['b']", "['b']", "a['']", "a['b['c']", "']"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if field, key, ok := subscript(path); ok && field+"['"+key+"']" != path {
			t.Errorf("%q was read as %q and %q", path, field, key)
		}
	})
}

func TestResourceField(t *testing.T) {
	container := limited("cpu=250m memory=100", "cpu=1500m ephemeral-storage=1Gi")
	node := amounts("cpu=8 memory=16Gi")
	for _, c := range []struct{ name, divisor, want string }{
		{"limits.cpu", "", "2"}, {"limits.cpu", "1m", "1500"}, {"requests.cpu", "", "1"}, {"requests.cpu", "1m", "250"},
		{"limits.memory", "1Gi", "16"}, {"requests.memory", "1Ki", "1"}, {"limits.ephemeral-storage", "1Mi", "1024"},
		{"requests.ephemeral-storage", "", "0"},
	} {
		ref := &v1.ResourceFieldSelector{Resource: c.name}
		if c.divisor != "" {
			ref.Divisor = resource.MustParse(c.divisor)
		}
		got, err := ResourceField(&v1.Pod{}, &container, ref, node)
		testutil.Assert(t, err == nil && got == c.want,
			"%s in %q: got %s, %v; want %s", c.name, c.divisor, got, err, c.want)
	}
	for _, name := range []string{"", "limits", "limits.gold", "cpu", "requests.cpu.x"} {
		got, err := ResourceField(&v1.Pod{}, &container, &v1.ResourceFieldSelector{Resource: name}, node)
		testutil.Assert(t, err != nil, "%q: got %s, want an error", name, got)
	}
	_, err := ResourceField(&v1.Pod{}, &container,
		&v1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: resource.MustParse("-1")}, node)
	testutil.Assert(t, err != nil, "a negative divisor was accepted")
}
