package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestConversions(t *testing.T) {
	for _, c := range []struct{ milli, shares, quota, weight int64 }{
		{0, 2, 0, 1}, {1, 2, 1000, 1}, {5, 5, 1000, 1}, {100, 102, 10_000, 4}, {1000, 1024, 100_000, 39},
		{1 << 40, 262144, 1 << 40 * 100, 10000},
	} {
		s, q, w := Shares(c.milli), Quota(c.milli), weight(Shares(c.milli))
		testutil.Assert(t, s == c.shares && q == c.quota && w == c.weight,
			"%d: %d shares, quota %d, weight %d; want %d, %d, %d", c.milli, s, q, w, c.shares, c.quota, c.weight)
	}
	for bytes, want := range map[int64]string{2 << 20: "2MB", 1 << 30: "1GB", 64 << 10: "64KB", 512: "512B",
		1 << 40: "1024GB"} {
		testutil.Equal(t, PageSize(bytes), want, "%d", bytes)
	}
	testutil.Equal(t, quotaPerSecond(Quota(1001)), 1_010_000, "systemd's quota for 1.001 processors, rounded up")
}

func TestNames(t *testing.T) {
	n := name{"kubelet-core", "node1", "kubepods", "burstable", "pod12-34"}
	if got, want := n.cgroupfs(), "/kubelet-core/node1/kubepods/burstable/pod12-34"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const want = "/kubelet_core.slice/kubelet_core-node1.slice/kubelet_core-node1-kubepods.slice/kubelet_core-node1-kubepods-burstable.slice/kubelet_core-node1-kubepods-burstable-pod12_34.slice"
	testutil.Equal(t, n.systemd(), want, "systemd")
}

func podOf(uid types.UID, requests, limits string) *v1.Pod {
	amounts := func(text string) v1.ResourceList {
		list := v1.ResourceList{}
		for _, field := range strings.Fields(text) {
			name, amount, _ := strings.Cut(field, "=")
			list[v1.ResourceName(name)] = resource.MustParse(amount)
		}
		return list
	}
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1.PodSpec{Containers: []v1.Container{
		{Name: "main", Resources: v1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}}}}
}

// realManager uses the machine's cgroups, below a cgroup of the test.
func realManager(t *testing.T) *Manager {
	t.Helper()
	root := "test-" + strings.ToLower(t.Name())
	m := New(context.Background(), Options{Driver: Cgroupfs, Root: root})
	if m.tree == nil {
		t.Skip("the machine's cgroups cannot be written")
	}
	t.Cleanup(func() {
		testutil.Must(t, m.tree.remove(context.Background(), name{root}))
	})
	return m
}

// read returns a file of a cgroup, from the hierarchy that has it.
func read(t *testing.T, m *Manager, parent, file string) string {
	t.Helper()
	for _, hierarchy := range m.tree.(*files).hierarchies {
		if content, err := os.ReadFile(filepath.Join(hierarchy, parent, file)); err == nil {
			return strings.TrimSpace(string(content))
		}
	}
	t.Errorf("%s is missing in %s", file, parent)
	return ""
}

func wantFile(t *testing.T, m *Manager, parent, v1File, v1Value, v2File, v2Value string) {
	t.Helper()
	file, want := v1File, v1Value
	if m.tree.(*files).unified {
		file, want = v2File, v2Value
	}
	testutil.Equal(t, read(t, m, parent, file), want, "%s of %s", file, parent)
}

// ensure calls Ensure for each pod, and ends the test on an error. It returns the last parent.
func ensure(t *testing.T, m *Manager, pods ...*v1.Pod) (parent string) {
	t.Helper()
	for _, pod := range pods {
		var err error
		parent, err = m.Ensure(t.Context(), pod)
		testutil.Must(t, err)
	}
	return parent
}

func TestPodsGetWhatTheyAskedFor(t *testing.T) {
	m := realManager(t)
	ctx := context.Background()
	top := m.top.cgroupfs()
	for _, c := range []struct {
		pod  *v1.Pod
		want string
	}{
		{podOf("g", "", "cpu=500m memory=64Mi"), top + "/podg"},
		{podOf("b1", "cpu=1", ""), top + "/burstable/podb1"},
		{podOf("b2", "cpu=2", "memory=32Mi"), top + "/burstable/podb2"},
		{podOf("n", "", ""), top + "/besteffort/podn"},
	} {
		for range 2 { // Ensure may be repeated
			if got, err := m.Ensure(ctx, c.pod); err != nil || got != c.want || m.Parent(c.pod) != c.want {
				t.Fatalf("got %s, %v; want %s", got, err, c.want)
			}
		}
	}
	wantFile(t, m, top+"/podg", "memory.limit_in_bytes", "67108864", "memory.max", "67108864")
	wantFile(t, m, top+"/podg", "cpu.cfs_quota_us", "50000", "cpu.max", "50000 100000")
	wantFile(t, m, top+"/burstable/podb2", "memory.limit_in_bytes", "33554432", "memory.max", "33554432")
	wantFile(t, m, top+"/burstable/podb2", "cpu.cfs_quota_us", "-1", "cpu.max", "max 100000")
	wantFile(t, m, top+"/burstable/podb2", "cpu.shares", "2048", "cpu.weight", "79")
	wantFile(t, m, top+"/burstable", "cpu.shares", "3072", "cpu.weight", "118")
	wantFile(t, m, top+"/besteffort", "cpu.shares", "2", "cpu.weight", "1")
	uids, err := m.Pods()
	slices.Sort(uids)
	testutil.Assert(t, err == nil && slices.Equal(uids, []types.UID{"b1", "b2", "g", "n"}), "got %v, %v", uids, err)
	for range 2 {
		testutil.Must(t, m.Remove(ctx, "b2"))
	}
	wantFile(t, m, top+"/burstable", "cpu.shares", "1024", "cpu.weight", "39")
	uids, err = m.Pods()
	testutil.Assert(t, err == nil && len(uids) == 3, "got %v, %v; want three pods left", uids, err)
}

// TestRestartKeepsTheWeight: after a restart the burstable class keeps its weight until all its pods are known again.
func TestRestartKeepsTheWeight(t *testing.T) {
	first := realManager(t)
	ctx := context.Background()
	pods := []*v1.Pod{podOf("b1", "cpu=1", ""), podOf("b2", "cpu=2", ""), podOf("gone", "cpu=4", "")}
	ensure(t, first, pods...)
	top := first.top.cgroupfs()
	m := New(ctx, Options{Driver: Cgroupfs, Root: first.top[0]})
	wantFile(t, m, top+"/burstable", "cpu.shares", "7168", "cpu.weight", "274")
	for _, pod := range pods[:2] {
		ensure(t, m, pod)
		wantFile(t, m, top+"/burstable", "cpu.shares", "7168", "cpu.weight", "274")
	}
	testutil.Must(t, m.Remove(ctx, "gone"))
	wantFile(t, m, top+"/burstable", "cpu.shares", "3072", "cpu.weight", "118")
}

// TestWeightOfTheClassIsWrittenOnChange: the weight is written when a request changes, and not with each call.
func TestWeightOfTheClassIsWrittenOnChange(t *testing.T) {
	m := realManager(t)
	class := m.top.cgroupfs() + "/burstable"
	ensure(t, m, podOf("b", "cpu=1", ""))
	testutil.Must(t, m.tree.ensure(t.Context(), m.classes()[1], limits{shares: 4096}))
	ensure(t, m, podOf("b", "cpu=1", ""))
	wantFile(t, m, class, "cpu.shares", "4096", "cpu.weight", "157")
	ensure(t, m, podOf("b", "cpu=2", ""))
	wantFile(t, m, class, "cpu.shares", "2048", "cpu.weight", "79")
}

// TestPidsLimitIsTakenBack: a manager without a PID limit removes the limit of an earlier one.
func TestPidsLimitIsTakenBack(t *testing.T) {
	m := realManager(t)
	pod := podOf("p", "", "")
	for _, c := range []struct {
		pids int64
		want string
	}{{0, "max"}, {64, "64"}, {0, "max"}} {
		m.opts.PodPids = c.pids
		parent := ensure(t, m, pod)
		wantFile(t, m, parent, "pids.max", c.want, "pids.max", c.want)
		got := fmt.Sprint(properties(limits{pids: cmp.Or(c.pids, noLimit)}))
		testutil.Assert(t, strings.Contains(got, "TasksMax"), "systemd gets %s", got)
	}
}

// TestLimitsAreLifted: a resize can remove limits.
func TestLimitsAreLifted(t *testing.T) {
	m := realManager(t)
	for range 2 {
		parent := ensure(t, m, podOf("p", "cpu=1", "cpu=2 memory=64Mi"))
		wantFile(t, m, parent, "memory.limit_in_bytes", "67108864", "memory.max", "67108864")
		wantFile(t, m, parent, "cpu.cfs_quota_us", "200000", "cpu.max", "200000 100000")
		ensure(t, m, podOf("p", "cpu=1", ""))
		wantFile(t, m, parent, "memory.limit_in_bytes", strconv.Itoa(Unlimited), "memory.max", "max")
		wantFile(t, m, parent, "cpu.cfs_quota_us", "-1", "cpu.max", "max 100000")
	}
	for _, limit := range []int64{-1, Unlimited, math.MaxInt64} {
		testutil.Equal(t, Limited(limit), 0, "%d counts as the limit", limit)
	}
}

// TestUnthrottledPods have no CPU quota.
func TestUnthrottledPods(t *testing.T) {
	m := realManager(t)
	m.opts.Unthrottled = func(pod *v1.Pod) bool { return pod.UID == "own" }
	own := ensure(t, m, podOf("own", "", "cpu=1 memory=64Mi"))
	wantFile(t, m, own, "cpu.cfs_quota_us", "-1", "cpu.max", "max 100000")
	shared := ensure(t, m, podOf("shared", "", "cpu=1 memory=64Mi"))
	wantFile(t, m, shared, "cpu.cfs_quota_us", "100000", "cpu.max", "100000 100000")
}

func TestRemoveKillsWhatIsLeft(t *testing.T) {
	m := realManager(t)
	ctx := context.Background()
	parent := ensure(t, m, podOf("left", "", ""))
	sleeper := exec.Command("sleep", "1000")
	testutil.Must(t, sleeper.Start())
	ended := testutil.Go(sleeper.Wait)
	inner := name{}.child(strings.TrimPrefix(parent, "/")).child("inner")
	testutil.Must(t, m.tree.ensure(ctx, inner, limits{}))
	dir := filepath.Join(m.tree.(*files).hierarchies[0], inner.cgroupfs())
	testutil.Must(t, os.MkdirAll(dir, 0o755))
	if err := put(dir, "cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
		t.Skipf("processes cannot be moved here: %v", err)
	}
	testutil.Must(t, m.Remove(ctx, "left"))
	err := <-ended
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "killed"),
		"the process ended with %v, want it killed", err)
	_, err = os.Stat(dir)
	testutil.Assert(t, err != nil, "the cgroup is still there")
}

func TestBadUIDs(t *testing.T) {
	m := realManager(t)
	for _, uid := range []types.UID{"", "a/b", "../x", "a_b"} {
		_, err := m.Ensure(context.Background(), podOf(uid, "", ""))
		testutil.Assert(t, errors.Is(err, errdefs.ErrInvalidArgument), "%q: %v, want ErrInvalidArgument", uid, err)
		testutil.Check(t, m.Remove(context.Background(), uid))
	}
}

// TestStrangeLeftovers: Remove succeeds for a UID that no pod can have. It does not remove another pod's cgroup whose
// slice has the same name. Pods does not list a cgroup whose name no pod can have.
func TestStrangeLeftovers(t *testing.T) {
	m, fake := sliceManager(t)
	ensure(t, m, podOf("12-34", "", ""))
	testutil.Must(t, m.Remove(t.Context(), "12_34"))
	testutil.Assert(t, fake.units["me-kubepods-besteffort-pod12_34.slice"] != nil, "the slice of 12-34 was removed")
	root := t.TempDir()
	m = New(t.Context(), Options{})
	m.tree = &files{unified: true, hierarchies: []string{root}}
	for _, name := range []string{"pod12-34", "pod12_34", "pod"} {
		testutil.Must(t, os.MkdirAll(filepath.Join(root, m.top.child(name).cgroupfs()), 0o755))
	}
	found, err := m.Pods()
	testutil.Assert(t, err == nil && slices.Equal(found, []types.UID{"12-34"}), "pods with cgroups: %q, %v", found, err)
}

func TestUnknownDriverLeavesCgroupsToTheRuntime(t *testing.T) {
	m := New(context.Background(), Options{Driver: "none"})
	parent, err := m.Ensure(context.Background(), podOf("x", "cpu=1", ""))
	uids, listErr := m.Pods()
	err = errors.Join(err, listErr, m.Remove(context.Background(), "x"))
	testutil.Assert(t, err == nil && parent == "" && uids == nil, "got %q, %v, %v", parent, uids, err)
}

// TestUnifiedFiles checks the writes to a directory that looks like cgroup v2, on any machine.
func TestUnifiedFiles(t *testing.T) {
	root := t.TempDir()
	for path, content := range map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "memory\n",
		"a/cgroup.controllers": "cpu\n", "a/cgroup.subtree_control": "", "a/cpu.weight": "", "a/cpu.max": "",
		"a/memory.max": "",
	} {
		testutil.WriteFile(t, filepath.Join(root, path), content)
	}
	f := &files{unified: true, hierarchies: []string{root}}
	testutil.Must(t, f.ensure(context.Background(), name{"a"}, limits{shares: 1024, quota: 50_000, memory: 4096}))
	wantFiles := func(files map[string]string) {
		t.Helper()
		for path, want := range files {
			// Unlike a cgroup file, this one has only the last write.
			got, err := os.ReadFile(filepath.Join(root, path))
			testutil.Assert(t, err == nil && string(got) == want, "%s: %q, %v; want %q", path, got, err, want)
		}
	}
	wantFiles(map[string]string{
		"cgroup.subtree_control": "+pids", "a/cgroup.subtree_control": "+cpu", "a/cpu.weight": "39",
		"a/cpu.max": "50000 100000", "a/memory.max": "4096",
	})
	testutil.Must(t, f.ensure(context.Background(), name{"a"}, limits{quota: noLimit, memory: noLimit, pids: noLimit}))
	wantFiles(map[string]string{"a/cpu.weight": "39", "a/cpu.max": "max 100000", "a/memory.max": "max"})
}

func TestHost(t *testing.T) {
	host, err := Inspect()
	testutil.Assert(t, err == nil && host.Memory >= 1<<20 && host.CPUs >= 1, "got %+v, %v", host, err)
	capacity := host.Capacity()
	testutil.Assert(t, capacity.Memory().Value() == host.Memory && capacity.Cpu().Value() == int64(host.CPUs),
		"capacity %v", capacity)
}
