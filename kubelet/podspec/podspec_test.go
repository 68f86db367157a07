package podspec

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

func testObjects() modeltest.Objects {
	return modeltest.Objects{
		ConfigMaps: map[string]*v1.ConfigMap{
			"shop/settings": {Data: map[string]string{"color": "red", "size": "xl", "no=name": "x"}}},
		Secrets: map[string]*v1.Secret{
			"shop/key": {Data: map[string][]byte{"token": []byte("t0p"), "color": []byte("blue")}}},
	}
}

// testGenerator returns a generator with its own root and an 8 GiB host. change may set more options.
func testGenerator(t *testing.T, change func(*Options)) *Generator {
	t.Helper()
	root := t.TempDir()
	resolvConf := filepath.Join(root, "resolv.conf")
	testutil.WriteFile(t, resolvConf, "nameserver 192.0.2.1\nsearch example.org\noptions timeout:3\n")
	opts := Options{
		NodeName: "node1", NodeIPs: func() []string { return []string{"192.0.2.10", "2001:db8::10"} }, RootDir: root,
		PodLogsDir: "/var/log/pods", Owner: "me",
		Objects: testObjects(), ResolvConf: resolvConf, Host: cgroup.Host{Memory: 8 << 30, CPUs: 4},
		Allocatable: func() v1.ResourceList {
			return v1.ResourceList{v1.ResourceCPU: resource.MustParse("3500m"),
				v1.ResourceMemory: resource.MustParse("7Gi"), v1.ResourceEphemeralStorage: resource.MustParse("9Gi")}
		},
		Volumes: volumemanager.New(volumemanager.Options{RootDir: root, Objects: testObjects()}),
		Devices: func(context.Context, *v1.Pod, *v1.Container, *runtimeapi.ContainerConfig) error { return nil },
		CPUs:    func(*v1.Pod, *v1.Container, *runtimeapi.ContainerConfig) error { return nil },
		Warn:    func(*v1.Pod, string, string) {},
	}
	if change != nil {
		change(&opts)
	}
	return New(opts)
}

func testPod(change func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "uid-1",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"note": "n"}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "img:1"}}, DNSPolicy: v1.DNSClusterFirst},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

func input(pod *v1.Pod) ContainerInput {
	return ContainerInput{Pod: pod, Container: &pod.Spec.Containers[0], Kind: model.App, Attempt: 3,
		ImageID: "sha256:1", PodIPs: []string{"10.1.0.5", "fd00::5"}}
}

func mustContainer(t *testing.T, g *Generator, in ContainerInput) *runtimeapi.ContainerConfig {
	t.Helper()
	config, err := g.Container(context.Background(), in)
	testutil.Must(t, err)
	return config
}

func environmentOf(config *runtimeapi.ContainerConfig) string {
	var pairs []string
	for _, pair := range config.GetEnvs() {
		pairs = append(pairs, pair.GetKey()+"="+string(pair.GetValue()))
	}
	return strings.Join(pairs, " ")
}

func TestEnvironment(t *testing.T) {
	yes := true
	local := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	from := func(path string) *v1.EnvVarSource {
		return &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
	}
	for _, c := range []struct {
		name    string
		envFrom []v1.EnvFromSource
		env     []v1.EnvVar
		want    string
	}{
		{"order and expansion", nil, []v1.EnvVar{
			{Name: "B", Value: "b"}, {Name: "A", Value: "$(B)-$(UNKNOWN)-$$(B)"}, {Name: "B", Value: "again $(B)"}},
			"B=again b A=b-$(UNKNOWN)-$(B)"},
		{"envFrom", []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("settings")}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("key")}},
			{Prefix: "P_", SecretRef: &v1.SecretEnvSource{LocalObjectReference: local("key")}},
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: local("nothing"), Optional: &yes}},
		}, []v1.EnvVar{{Name: "size", Value: "$(size)xl"}}, "color=blue size=xlxl token=t0p P_color=blue P_token=t0p"},
		{"keys", nil, []v1.EnvVar{
			{Name: "C",
				ValueFrom: &v1.EnvVarSource{
					ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("settings"), Key: "color"}}},
			{Name: "S",
				ValueFrom: &v1.EnvVarSource{
					SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("key"), Key: "token"}}},
			{Name: "N",
				ValueFrom: &v1.EnvVarSource{
					SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("key"), Key: "none",
						Optional: &yes}}},
		}, "C=red S=t0p"},
		{"fields", nil, []v1.EnvVar{
			{Name: "NAME", ValueFrom: from("metadata.name")},
			{Name: "LABEL", ValueFrom: from("metadata.labels['app']")},
			{Name: "NODE", ValueFrom: from("spec.nodeName")}, {Name: "IP", ValueFrom: from("status.podIP")},
			{Name: "IPS", ValueFrom: from("status.podIPs")},
			{Name: "HOST", ValueFrom: from("status.hostIP")}, {Name: "HOSTS", ValueFrom: from("status.hostIPs")},
			{Name: "UID", ValueFrom: from("metadata.uid")},
		},
			"NAME=web LABEL=web NODE=node1 IP=10.1.0.5 IPS=10.1.0.5,fd00::5 HOST=192.0.2.10 " +
				"HOSTS=192.0.2.10,2001:db8::10 UID=uid-1"},
		{"resources", nil, []v1.EnvVar{
			{Name: "CPU",
				ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}}},
			{Name: "MEM",
				ValueFrom: &v1.EnvVarSource{
					ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.memory",
						Divisor: resource.MustParse("1Mi")}}},
			{Name: "DISK",
				ValueFrom: &v1.EnvVarSource{
					ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.ephemeral-storage",
						Divisor: resource.MustParse("1Gi")}}},
			{Name: "REQ",
				ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "requests.cpu"}}},
		}, "CPU=4 MEM=7168 DISK=9 REQ=0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := testGenerator(t, nil)
			pod := testPod(func(pod *v1.Pod) {
				pod.Spec.Containers[0].EnvFrom, pod.Spec.Containers[0].Env = c.envFrom, c.env
			})
			testutil.Equal(t, environmentOf(mustContainer(t, g, input(pod))), c.want, "environmentOf")
		})
	}
}

// TestEnvironmentOfSeveralAddresses: a variable has the addresses of the pod's status.
func TestEnvironmentOfSeveralAddresses(t *testing.T) {
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "IPS",
			ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.podIPs"}}}}
	})
	in := input(pod)
	in.PodIPs = []string{"fd00::5", "10.1.0.5", "10.1.0.6"}
	testutil.Equal(t, environmentOf(mustContainer(t, testGenerator(t, nil), in)), "IPS=10.1.0.5,fd00::5", "environment")
}

func TestEnvironmentIsMissing(t *testing.T) {
	local := func(name string) v1.LocalObjectReference { return v1.LocalObjectReference{Name: name} }
	for want, variable := range map[string]v1.EnvVarSource{
		"nothing": {ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local("nothing"), Key: "k"}},
		"couldn't find key k in secret \"shop/key\"": {
			SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local("key"), Key: "k"}},
		"status.phase":    {FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.phase"}},
		"limits.gold":     {ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.gold"}},
		"container \"x\"": {ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu", ContainerName: "x"}},
	} {
		pod := testPod(func(pod *v1.Pod) {
			pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "X", ValueFrom: &variable}}
		})
		_, err := testGenerator(t, nil).Container(context.Background(), input(pod))
		if err == nil || !strings.Contains(err.Error(), "env X") ||
			want != "nothing" && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error about env X and %s", err, want)
		}
	}
}

// TestServiceVariablesAreExpanded checks that a container can use one variable of a service, and override another.
func TestServiceVariablesAreExpanded(t *testing.T) {
	g := testGenerator(t, func(o *Options) {
		o.Services = func(*v1.Pod) (map[string]string, error) {
			return map[string]string{"DB_PORT": "1", "DB_SERVICE_HOST": "10.0.0.1"}, nil
		}
	})
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "URL", Value: "db://$(DB_SERVICE_HOST)"},
			{Name: "DB_PORT", Value: "own"}}
	})
	got, want := environmentOf(
		mustContainer(t, g, input(pod))), "URL=db://10.0.0.1 DB_PORT=own DB_SERVICE_HOST=10.0.0.1"
	testutil.Assert(t, got == want, "got %s, want %s", got, want)
	unknown := testGenerator(t, func(o *Options) {
		o.Services = func(*v1.Pod) (map[string]string, error) { return nil, errors.New("not known") }
	})
	_, err := unknown.Container(context.Background(), input(pod))
	testutil.Assert(t, err != nil, "a container is configured although the pod's services are unknown")
}

func TestInvalidNamesAreReportedAndLeftOut(t *testing.T) {
	var told []string
	g := testGenerator(t, func(o *Options) {
		o.Warn = func(_ *v1.Pod, reason, message string) { told = append(told, reason+" "+message) }
	})
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}}
	})
	testutil.Equal(t, environmentOf(mustContainer(t, g, input(pod))), "color=red size=xl", "environmentOf")
	testutil.Assert(t, len(told) == 1 && strings.HasPrefix(told[0], "InvalidEnvironmentVariableNames ") &&
		strings.Contains(told[0], "no=name"), "warnings %q", told)
}

func TestCommandIsExpanded(t *testing.T) {
	pod := testPod(func(pod *v1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Env = []v1.EnvVar{{Name: "WHO", Value: "world"}}
		c.Command, c.Args = []string{"echo", "$(WHO)"}, []string{"$$(WHO)", "$(NOBODY)", "$WHO", "$("}
	})
	config := mustContainer(t, testGenerator(t, nil), input(pod))
	got, want := slices.Concat(config.GetCommand(), config.GetArgs()), []string{"echo", "world", "$(WHO)", "$(NOBODY)",
		"$WHO", "$("}
	testutil.Assert(t, slices.Equal(got, want), "got %q, want %q", got, want)
}

func TestContainerIdentity(t *testing.T) {
	pod := testPod(func(pod *v1.Pod) {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(12))
		pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}}
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80}}
	})
	config := mustContainer(t, testGenerator(t, nil), input(pod))
	for key, want := range map[string]string{
		model.LabelPodName: "web", model.LabelPodNamespace: "shop", model.LabelPodUID: "uid-1",
		model.LabelContainerName: "main", model.LabelOwner: "me",
	} {
		testutil.Equal(t, config.GetLabels()[key], want, "label %s", key)
	}
	for key, want := range map[string]string{
		model.AnnotationRestartCount: "3", model.AnnotationPodTerminationGrace: "12",
		model.AnnotationHash:           model.ContainerHash(&pod.Spec.Containers[0]),
		model.AnnotationPreStopHandler: `{"exec":{"command":["bye"]}}`,
		model.AnnotationContainerPorts: `[{"containerPort":80}]`,
	} {
		testutil.Equal(t, config.GetAnnotations()[key], want, "annotation %s", key)
	}
	testutil.Assert(t, config.GetLogPath() == "main/3.log" && config.GetImage().GetImage() == "sha256:1" &&
		config.GetImage().GetUserSpecifiedImage() == "img:1", "log %s, image %v", config.GetLogPath(),
		config.GetImage())
}

func TestStopSignal(t *testing.T) {
	for name, want := range map[v1.Signal]runtimeapi.Signal{"SIGUSR1": runtimeapi.Signal_SIGNAL_SIGUSR1,
		"SIGRTMIN+3": runtimeapi.Signal_SIGNAL_SIGRTMINPLUS3} {
		pod := testPod(func(pod *v1.Pod) { pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{StopSignal: &name} })
		testutil.Equal(t, mustContainer(t, testGenerator(t, nil), input(pod)).GetStopSignal(), want, "%s", name)
	}
	_, err := stopSignal(&v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: new(v1.Signal("SIGNONSENSE"))}})
	testutil.Assert(t, errors.Is(err, errdefs.ErrInvalidArgument), "got %v, want ErrInvalidArgument", err)
}
