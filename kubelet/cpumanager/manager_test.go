package cpumanager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
)

// system makes the kernel's files of a machine with two sockets, two cores per socket, and two CPUs per core. CPUs 0
// and 4 are the first core, and 1 and 5 the second. CPUs 2, 3, 6 and 7 are on the second socket.
func system(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"online": "0-7\n"}
	for id := range 8 {
		in := filepath.Join("cpu"+strconv.Itoa(id), "topology")
		files[filepath.Join(in, "physical_package_id")] = strconv.Itoa(id%4/2) + "\n"
		files[filepath.Join(in, "core_id")] = strconv.Itoa(id%2) + "\n"
	}
	for name, content := range files {
		testutil.WriteFile(t, filepath.Join(dir, name), content)
	}
	return dir
}

func TestTake(t *testing.T) {
	all, err := readTopology(system(t))
	testutil.Must(t, err)
	for name, c := range map[string]struct {
		free string
		n    int
		want string
	}{
		"none":                            {"0-7", 0, ""},
		"one":                             {"0-7", 1, "0"},
		"a core":                          {"0-7", 2, "0,4"},
		"a core and one":                  {"0-7", 3, "0-1,4"},
		"a socket":                        {"0-7", 4, "0-1,4-5"},
		"a socket and a core":             {"0-7", 6, "0-2,4-6"},
		"all":                             {"0-7", 8, "0-7"},
		"the socket in use":               {"0-6", 2, "2,6"},
		"the rest of a core":              {"1-7", 1, "4"},
		"a core of the socket in use":     {"1-7", 2, "1,5"},
		"a free socket beside one in use": {"1-7", 4, "2-3,6-7"},
		"singles":                         {"0,1,2,3", 3, "0-2"},
		"fewer than wanted":               {"3,5", 3, "3,5"},
	} {
		got := all.take(parse(c.free), c.n)
		testutil.Assert(t, got.String() == c.want, "%s: %d of %s are %s, want %s", name, c.n, c.free, got, c.want)
	}
	fourThreads := topology{}
	for id := range 8 {
		fourThreads[id] = core{number: id % 2}
	}
	got := fourThreads.take(parse("0-5"), 2)
	testutil.Equal(t, got.String(), "0,2", "two CPUs of two cores in use")
}

func TestReadTopologyFails(t *testing.T) {
	for _, broken := range []string{"online", "cpu3/topology/core_id", "cpu0/topology/physical_package_id"} {
		dir := system(t)
		testutil.Must(t, os.WriteFile(filepath.Join(dir, broken), []byte("many\n"), 0o644))
		_, err := readTopology(dir)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), broken), "%s: %v", broken, err)
		testutil.Must(t, os.Remove(filepath.Join(dir, broken)))
		_, err = readTopology(dir)
		testutil.Assert(t, os.IsNotExist(err), "%s: %v", broken, err)
	}
}

// fakeRuntime has running containers with their CPUs.
type fakeRuntime struct {
	pods    map[types.UID]*model.PodStatus
	cpus    map[string]string
	updates []string
	fails   error
}

func (r *fakeRuntime) add(pod *v1.Pod, cpus string) {
	id := string(pod.UID) + "-c"
	r.pods[pod.UID] = &model.PodStatus{UID: pod.UID,
		Containers: []model.ContainerStatus{{ID: id, Name: "c", State: model.StateRunning}}}
	r.cpus[id] = cpus
}

func (r *fakeRuntime) Attempts(context.Context) (map[types.UID]*model.PodStatus, error) {
	return r.pods, nil
}

func (r *fakeRuntime) ContainerStatus(
	_ context.Context, id string, _ bool,
) (*runtimeapi.ContainerStatusResponse, error) {
	cpus, ok := r.cpus[id]
	if !ok {
		return nil, status.Error(codes.NotFound, id)
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		State: runtimeapi.ContainerState_CONTAINER_RUNNING, Resources: &runtimeapi.ContainerResources{
			Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: cpus}}}}, nil
}

func (r *fakeRuntime) UpdateContainerResources(
	_ context.Context, id string, resources *runtimeapi.ContainerResources,
) error {
	if r.fails != nil {
		return r.fails
	}
	r.cpus[id] = resources.GetLinux().GetCpusetCpus()
	r.updates = append(r.updates, id+" "+r.cpus[id])
	return nil
}

type fixture struct {
	*Manager
	runtime  *fakeRuntime
	finished map[types.UID]bool
}

func tryStart(t *testing.T, root string, change func(*Options)) (*fixture, error) {
	t.Helper()
	f := &fixture{runtime: &fakeRuntime{pods: map[types.UID]*model.PodStatus{}, cpus: map[string]string{}},
		finished: map[types.UID]bool{}}
	opts := Options{Policy: Static, ReservedCount: 1, RootDir: root, Runtime: f.runtime,
		Finished: func(uid types.UID) bool { return f.finished[uid] }}
	if change != nil {
		change(&opts)
	}
	var err error
	f.Manager, err = open(opts, system(t))
	return f, err
}

func start(t *testing.T, root string, change func(*Options)) *fixture {
	t.Helper()
	f, err := tryStart(t, root, change)
	testutil.Must(t, err)
	return f
}

// pod returns a pod with one container. The pod is guaranteed unless cpu is empty.
func pod(name, cpu string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}}
	p.Spec.Containers = []v1.Container{{Name: "c"}}
	if cpu != "" {
		amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu),
			v1.ResourceMemory: resource.MustParse("1Mi")}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts, Limits: amounts}
	}
	return p
}

func (f *fixture) apply(p *v1.Pod, c *v1.Container) (string, error) {
	config := &runtimeapi.ContainerConfig{
		Linux: &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{}}}
	err := f.Apply(p, c, config)
	return config.GetLinux().GetResources().GetCpusetCpus(), err
}

func (f *fixture) gets(t *testing.T, p *v1.Pod, want string) {
	t.Helper()
	got, err := f.apply(p, &p.Spec.Containers[0])
	testutil.Assert(t, err == nil && got == want, "%s gets %q, want %q: %v", p.UID, got, want, err)
}

// TestApply: whole CPUs of guaranteed pods leave the pool, until their pod has ended.
func TestApply(t *testing.T) {
	root := t.TempDir()
	f := start(t, root, nil)
	f.gets(t, pod("best-effort", ""), "0-7")
	f.gets(t, pod("three", "3"), "1,4-5")
	f.gets(t, pod("half", "1500m"), "0,2-3,6-7")
	f.gets(t, pod("four", "4"), "2-3,6-7")
	f.gets(t, pod("best-effort", ""), "0")
	one := pod("one", "1")
	_, err := f.apply(one, &one.Spec.Containers[0])
	testutil.Assert(t, errdefs.IsResourceExhausted(err) && strings.Contains(err.Error(), "resources.requests[cpu]"),
		"%v", err)

	f.finished["three"] = true
	f.gets(t, pod("best-effort", ""), "0-1,4-5")
	f.gets(t, one, "4")
	testutil.Must(t, f.Keep(func(uid types.UID) bool { return uid != "three" }))
	again := start(t, root, nil)
	again.gets(t, one, "4")
	again.gets(t, pod("best-effort", ""), "0-1,5")
	moved := start(t, root, func(o *Options) { o.Reserved = cpuset.New(4, 5) })
	moved.gets(t, one, "0")
}

// TestQuota: only a container with exclusive CPUs has no CPU quota.
func TestQuota(t *testing.T) {
	f := start(t, t.TempDir(), nil)
	for cpu, want := range map[string]int64{"2": 0, "1500m": 150_000} {
		p := pod("quota-"+cpu, cpu)
		resources := &runtimeapi.LinuxContainerResources{CpuPeriod: 100_000, CpuQuota: 150_000}
		config := &runtimeapi.ContainerConfig{Linux: &runtimeapi.LinuxContainerConfig{Resources: resources}}
		testutil.Must(t, f.Apply(p, &p.Spec.Containers[0], config))
		testutil.Equal(t, resources.CpuQuota, want, "the quota of a container with %s CPUs", cpu)
	}
}

// TestInitContainers: the first app container gets the CPUs of the pod's init container, which ends before. Another app
// container gets other CPUs.
func TestInitContainers(t *testing.T) {
	f := start(t, t.TempDir(), func(o *Options) { o.Reserved = cpuset.New(3, 7) })
	p := pod("p", "2")
	p.Spec.InitContainers = []v1.Container{*p.Spec.Containers[0].DeepCopy()}
	p.Spec.InitContainers[0].Name = "i"
	other := p.Spec.Containers[0].DeepCopy()
	other.Name = "other"
	p.Spec.Containers = append(p.Spec.Containers, *other)
	for _, c := range []*v1.Container{&p.Spec.InitContainers[0], &p.Spec.Containers[0]} {
		got, err := f.apply(p, c)
		testutil.Assert(t, err == nil && got == "2,6", "%s: %q, %v", c.Name, got, err)
	}
	got, err := f.apply(p, other)
	testutil.Assert(t, err == nil && got == "0,4", "the other: %q, %v", got, err)
}

func TestExclusive(t *testing.T) {
	f := start(t, t.TempDir(), nil)
	podLevel := pod("p", "2")
	podLevel.Spec.Resources = podLevel.Spec.Containers[0].Resources.DeepCopy()
	burstable := pod("p", "2")
	burstable.Spec.Containers[0].Resources.Limits = nil
	testutil.Assert(t, f.Exclusive(pod("p", "2")), "whole CPUs")
	for name, p := range map[string]*v1.Pod{"a part": pod("p", "500m"), "of the pod": podLevel, "burstable": burstable,
		"best effort": pod("p", "")} {
		testutil.Assert(t, !f.Exclusive(p), "%s", name)
	}
	off := start(t, t.TempDir(), func(o *Options) { o.Policy = None })
	testutil.Assert(t, !off.Exclusive(pod("p", "2")), "another policy")
	off.gets(t, pod("p", "2"), "")
}

func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"nothing reserved": {func(o *Options) { o.ReservedCount = 0 }, "--system-reserved cpu=1"},
		"too high": {func(o *Options) { o.Reserved = cpuset.New(7, 8) },
			"--reserved-cpus 7-8: the machine has 0-7"},
	} {
		_, err := tryStart(t, t.TempDir(), c.change)
		testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), c.want), "%s: %v", name, err)
	}
	root := t.TempDir()
	testutil.Must(t, os.WriteFile(filepath.Join(root, "cpus.json"), []byte("{"), 0o600))
	_, err := tryStart(t, root, nil)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "cpus.json"), "%v", err)
}

// runs calls Run, and ends Run after meanwhile has returned.
func (f *fixture) runs(t *testing.T, meanwhile func()) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := testutil.Go(func() error { return f.Run(ctx) })
	synctest.Wait()
	meanwhile()
	cancel()
	return <-ended
}

// TestRun: Run moves running containers when the pool changes, and only then.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, t.TempDir(), nil)
		f.runtime.add(pod("old", ""), "")
		f.runtime.add(pod("same", ""), "0-7")
		err := f.runs(t, func() {
			f.gets(t, pod("two", "2"), "1,5")
			synctest.Wait()
			f.runtime.add(pod("two", "2"), "1,5")
			f.Wake()
			synctest.Wait()
			f.runtime.fails = status.Error(codes.Unavailable, "away")
			f.finished["two"] = true
			delete(f.runtime.pods, "two")
			f.Wake()
			synctest.Wait()
			f.runtime.fails = nil
		})
		testutil.Must(t, err)
		testutil.Must(t, f.runs(t, func() {}))
		counts := map[string]int{}
		for _, update := range f.runtime.updates {
			counts[update]++
		}
		testutil.Equal(t, fmt.Sprint(counts), fmt.Sprint(map[string]int{"old-c 0-7": 2, "old-c 0,2-4,6-7": 1,
			"same-c 0,2-4,6-7": 1, "same-c 0-7": 1}), "updates")
	})
}

// TestRunGivesAllBack: after a change of the policy no container stays bound.
func TestRunGivesAllBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		f := start(t, root, nil)
		f.gets(t, pod("two", "2"), "1,5")
		off := start(t, root, func(o *Options) { o.Policy = None })
		off.runtime.add(pod("two", "2"), "1,5")
		off.runtime.fails = status.Error(codes.Unavailable, "away")
		testutil.Must(t, off.runs(t, func() {}))
		off.runtime.fails = nil
		testutil.Must(t, off.runs(t, func() {}))
		testutil.Equal(t, strings.Join(off.runtime.updates, ";"), "two-c 0-7", "updates")
		testutil.Must(t, off.Keep(func(types.UID) bool { return false }))
		testutil.Gone(t, filepath.Join(root, "cpus.json"), "the file of the grants")
	})
}
