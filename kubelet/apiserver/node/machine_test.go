package node

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func newTest(t *testing.T, opts Options, different map[string]string) *Reporter {
	t.Helper()
	opts.Name, opts.IPs = "here", at("192.0.2.1")
	r, err := newReporter(opts, fakeMachine(t, different))
	testutil.Must(t, err)
	return r
}

// TestPressure: each pressure condition follows Options.Pressure for its own resource.
func TestPressure(t *testing.T) {
	short := func(kind v1.NodeConditionType) Options {
		return Options{Pressure: func(asked v1.NodeConditionType) (bool, error) { return asked == kind, nil }}
	}
	unknown := Options{Pressure: func(v1.NodeConditionType) (bool, error) { return true, errors.New("no figures") }}
	for _, test := range []struct {
		name      string
		opts      Options
		different map[string]string
		kind      v1.NodeConditionType
		want      string // status and reason
	}{
		{name: "memory without a measurement", kind: v1.NodeMemoryPressure, want: "False KubeletHasSufficientMemory"},
		{name: "memory", opts: short(v1.NodeMemoryPressure), kind: v1.NodeMemoryPressure,
			want: "True KubeletHasInsufficientMemory"},
		{name: "memory while the disk is short", opts: short(v1.NodeDiskPressure), kind: v1.NodeMemoryPressure,
			want: "False KubeletHasSufficientMemory"},
		{name: "memory unknown", opts: unknown, kind: v1.NodeMemoryPressure, want: "Unknown KubeletCannotMeasure"},
		{name: "memory without capacity", different: map[string]string{"proc/meminfo": ""}, kind: v1.NodeReady,
			want: "False KubeletNotReady"},

		{name: "disk", opts: short(v1.NodeDiskPressure), kind: v1.NodeDiskPressure,
			want: "True KubeletHasDiskPressure"},
		{name: "disk while memory is short", opts: short(v1.NodeMemoryPressure), kind: v1.NodeDiskPressure,
			want: "False KubeletHasNoDiskPressure"},
		{name: "disk unknown", opts: unknown, kind: v1.NodeDiskPressure, want: "Unknown KubeletCannotMeasure"},

		{name: "process ids", opts: short(v1.NodePIDPressure), kind: v1.NodePIDPressure,
			want: "True KubeletHasInsufficientPID"},
		{name: "process ids while memory is short", opts: short(v1.NodeMemoryPressure), kind: v1.NodePIDPressure,
			want: "False KubeletHasSufficientPID"},
		{name: "process ids unknown", opts: unknown, kind: v1.NodePIDPressure, want: "Unknown KubeletCannotMeasure"},
		// As in the kubelet, only a threshold of pid.available says that there are too few.
		{name: "few process ids without a threshold", different: map[string]string{"proc/loadavg": "0 0 0 1/31900 1\n"},
			kind: v1.NodePIDPressure, want: "False KubeletHasSufficientPID"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newTest(t, test.opts, test.different)
			status := r.statusOf(v1.NodeStatus{})
			got := condition(&v1.Node{Status: status}, test.kind)
			testutil.Equal(t, string(got.Status)+" "+got.Reason, test.want, "%s", got.Message)
		})
	}
}

func TestReadiness(t *testing.T) {
	runtime, network := errors.New("runtime is down"), errors.New("no network")
	r := newTest(t, Options{RuntimeErr: func() error { return runtime }, NetworkErr: func() error { return network }},
		nil)
	got := r.readiness(errors.New("no memory"))
	want := "container runtime not ready: runtime is down; container runtime network not ready: no network; " +
		"missing node capacity: no memory"
	testutil.Assert(t, got.status == v1.ConditionFalse && got.reason == "KubeletNotReady" && got.message == want,
		"%+v", got)
	runtime, network = nil, nil
	r.opts.ShutdownErr = func() error { return errors.New("node is shutting down") }
	got = r.readiness(nil)
	testutil.Assert(t, got.status == v1.ConditionFalse && got.reason == "KubeletNotReady" &&
		got.message == "node is shutting down", "%+v", got)
	r.opts.ShutdownErr = nil
	got = r.readiness(nil)
	testutil.Assert(t, got.status == v1.ConditionTrue && got.reason == "KubeletReady", "%+v", got)
}

func TestCapacity(t *testing.T) {
	kept := Options{Kept: func(capacity v1.ResourceList) v1.ResourceList {
		return v1.ResourceList{
			v1.ResourceMemory: resource.MustParse("100Mi"),
			v1.ResourceEphemeralStorage: *resource.NewQuantity(capacity.StorageEphemeral().Value()/10,
				resource.BinarySI),
		}
	}}
	for _, test := range []struct {
		name                string
		opts                Options
		of                  v1.ResourceName
		capacity, remaining string
	}{
		{"memory: threshold and huge pages", kept, v1.ResourceMemory, "8Gi", "8088Mi"},
		{"memory reserved", Options{Reserved: list("memory", "1Gi"), Kept: kept.Kept}, v1.ResourceMemory, "8Gi",
			"7064Mi"},
		{"more memory reserved than there is", Options{Reserved: list("memory", "9Gi")}, v1.ResourceMemory, "8Gi", "0"},
		{"disk", kept, v1.ResourceEphemeralStorage, "100Gi", "90Gi"},
		{"pods", Options{}, v1.ResourcePods, "110", "110"},
		{"few pods", Options{MaxPods: 3}, v1.ResourcePods, "3", "3"},
		{"cpu", Options{capacity: list("cpu", "8"), Reserved: list("cpu", "500m")}, v1.ResourceCPU, "8", "7500m"},
		{"huge pages", Options{}, "hugepages-2Mi", "4Mi", "4Mi"},
		{"a size without huge pages", Options{}, "hugepages-1Gi", "0", "0"},
		{"a resource that only the options have", Options{capacity: list("example.com/card", "2")}, "example.com/card",
			"2", "2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := newTest(t, test.opts, nil).Node().Status
			for what, pair := range map[string][2]any{
				"capacity":    {status.Capacity[test.of], test.capacity},
				"allocatable": {status.Allocatable[test.of], test.remaining},
			} {
				got, want := pair[0].(resource.Quantity), resource.MustParse(pair[1].(string))
				testutil.Assert(t, got.Cmp(want) == 0, "%s is %s, want %s", what, got.String(), want.String())
			}
		})
	}
}

func list(name v1.ResourceName, amount string) v1.ResourceList {
	return v1.ResourceList{name: resource.MustParse(amount)}
}

func TestInfo(t *testing.T) {
	r := newTest(t, Options{}, map[string]string{
		"etc/machine-id": "", "var/lib/dbus/machine-id": "bus\n", "sys/class/dmi/id/product_uuid": "UUID\n",
		"etc/os-release": "", "usr/lib/os-release": "PRETTY_NAME='Quoted'\n",
		"proc/meminfo": "MemTotal: 4 kB\nMemAvailable: 3 kB\nSwapTotal: 2 kB\n",
	})
	info := r.Node().Status.NodeInfo
	testutil.Assert(t, info.MachineID == "bus" && info.SystemUUID == "UUID" && info.OSImage == "Quoted" &&
		info.ContainerRuntimeVersion == "Unknown" && info.Swap != nil && *info.Swap.Capacity == 2048, "%+v", info)
}

// TestThisMachine reads the real machine.
func TestThisMachine(t *testing.T) {
	r, err := New(Options{Name: "here", IPs: at("192.0.2.1")})
	testutil.Must(t, err)
	status := r.Node().Status
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage,
		v1.ResourcePods} {
		have, left := status.Capacity[name], status.Allocatable[name]
		testutil.Assert(t, have.Sign() > 0 && left.Sign() > 0 && left.Cmp(have) <= 0,
			"%s: capacity %s, allocatable %s", name, have.String(), left.String())
	}
	ready := condition(r.Node(), v1.NodeReady)
	testutil.Assert(t, ready.Status == v1.ConditionTrue, "ready %+v", ready)
	for _, kind := range []v1.NodeConditionType{v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure} {
		c := condition(r.Node(), kind)
		testutil.Assert(t, c.Status != v1.ConditionUnknown && c.Status != "", "%s: %+v", kind, c)
	}
	info := status.NodeInfo
	testutil.Assert(t, info.BootID != "" && info.KernelVersion != "" && info.OSImage != "" &&
		info.OperatingSystem == "linux", "info %+v", info)
}

func TestVersion(t *testing.T) {
	dep := func(path, version string) *debug.Module { return &debug.Module{Path: path, Version: version} }
	replaced := dep("k8s.io/api", "v0.1.0")
	replaced.Replace = dep("example.com/api", "v0.30.1")
	for want, info := range map[string]*debug.BuildInfo{
		"v1.37.2-core": {Deps: []*debug.Module{dep("k8s.io/apimachinery", "v0.1.0"), dep("k8s.io/api", "v0.37.2")}},
		"v1.30.1-core": {Deps: []*debug.Module{replaced}},
		"v0.0.0-core":  {Deps: []*debug.Module{dep("k8s.io/client-go", "v0.37.2")}},
	} {
		testutil.Equal(t, versionOf(info), want, "versionOf")
	}
	testutil.Equal(t, versionOf(nil), "v0.0.0-core", "without build information")
}

func TestImages(t *testing.T) {
	var images []*runtimeapi.Image
	for i := range 60 {
		images = append(images,
			&runtimeapi.Image{RepoTags: []string{strings.Repeat("x", i+1)}, RepoDigests: []string{"d"},
				Size: uint64(i / 2)})
	}
	images = append(images, &runtimeapi.Image{Size: 1000}, // an image without a name cannot be requested
		&runtimeapi.Image{Size: 999, RepoTags: []string{"4", "5", "6"}, RepoDigests: []string{"1", "2", "3"}})
	got := largest(ContainerImages(images))
	testutil.Assert(t, len(got) == maxImages && got[0].SizeBytes == 999 && strings.Join(got[0].Names, "") == "12345",
		"%d images, the first %+v", len(got), got[0])
	testutil.Assert(t, got[1].SizeBytes == 29 && len(got[1].Names[1]) == 59 && got[2].SizeBytes == 29 &&
		len(got[2].Names[1]) == 60, "not in order: %+v, %+v", got[1], got[2])
	testutil.Assert(t, len(images[61].RepoTags) == 3, "the runtime's answer was changed")
}

func TestRuntimeFeatures(t *testing.T) {
	handlers, features := RuntimeFeatures(&runtimeapi.StatusResponse{
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{
			{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true}}, {Name: ""},
		},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	})
	testutil.Assert(t, len(handlers) == 2 && handlers[0].Name == "" &&
		!*handlers[0].Features.RecursiveReadOnlyMounts && *handlers[1].Features.RecursiveReadOnlyMounts &&
		!*handlers[1].Features.UserNamespaces && *features.SupplementalGroupsPolicy, "%v %v", handlers, features)
	handlers, features = RuntimeFeatures(nil)
	testutil.Assert(t, handlers == nil && features == nil, "RuntimeFeatures(nil) returns features")
}

func TestBadOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"name":               func(o *Options) { o.Name = "Not_A_Name" },
		"ips":                func(o *Options) { o.IPs = nil },
		`ips: "x"`:           func(o *Options) { o.IPs = at("x") },
		"labels[l]":          func(o *Options) { o.Labels = map[string]string{"l": "not a value"} },
		`labels: "not a key`: func(o *Options) { o.Labels = map[string]string{"not a key": "l"} },
		"taints[k].effect":   func(o *Options) { o.Taints = []v1.Taint{{Key: "k", Effect: "Never"}} },
		"reserved[cpu]":      func(o *Options) { o.Reserved = list("cpu", "-1") },
	} {
		opts := Options{Name: "here", IPs: at("192.0.2.1")}
		change(&opts)
		_, err := New(opts)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want) && errdefs.IsInvalidArgument(err),
			"error %v, want an ErrInvalidArgument that names %s", err, want)
	}
}
