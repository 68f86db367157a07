package stats

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// All stats of a container, from both versions of cgroups.
func TestContainers(t *testing.T) {
	full := func(total uint64) *runtimeapi.PsiData { return &runtimeapi.PsiData{Total: total, Avg10: 0.5} }
	some := func(total uint64) *runtimeapi.PsiData {
		return &runtimeapi.PsiData{Total: total, Avg10: 1.5, Avg60: 0.25, Avg300: 0.05}
	}
	for kind, cpuPSI := range map[string]*runtimeapi.PsiStats{
		// cpu.pressure has no "full" line before Linux 5.13.
		v1Cgroupfs: {Some: some(2000000000)},
		v2Systemd:  {Some: some(2000000000), Full: full(100000000)},
	} {
		t.Run(kind, func(t *testing.T) {
			n := newTestNode(t, kind)
			list := n.containers(t)
			testutil.Require(t, len(list) == 1, "%d containers", len(list))
			got := list[0]
			rate := float64(got.Cpu.UsageNanoCores.GetValue())
			testutil.Assert(t, rate >= 0.75e9 && rate <= 0.81e9,
				"%.0f nano cores since a start ten seconds ago, want 0.8e9", rate)
			for _, taken := range []int64{got.Cpu.Timestamp, got.Memory.Timestamp, got.Swap.Timestamp,
				got.Io.Timestamp} {
				age := time.Since(time.Unix(0, taken))
				testutil.Assert(t, age >= 0 && age <= time.Second, "taken %v ago", age)
			}
			got.Cpu.UsageNanoCores = nil
			got.Cpu.Timestamp, got.Memory.Timestamp, got.Swap.Timestamp, got.Io.Timestamp = 0, 0, 0, 0
			want := &runtimeapi.ContainerStats{
				Attributes: &runtimeapi.ContainerAttributes{
					Id:          "c1",
					Metadata:    &runtimeapi.ContainerMetadata{Name: "main", Attempt: 1},
					Labels:      map[string]string{"tier": "front"},
					Annotations: map[string]string{"note": "kept"},
				},
				Cpu: &runtimeapi.CpuUsage{UsageCoreNanoSeconds: number(8000000000), Psi: cpuPSI},
				Memory: &runtimeapi.MemoryUsage{
					WorkingSetBytes: number(9200000),
					AvailableBytes:  number(67108864 - 9200000),
					UsageBytes:      number(10000000),
					RssBytes:        number(4000000),
					PageFaults:      number(1780),
					MajorPageFaults: number(6),
					Psi:             &runtimeapi.PsiStats{Some: some(3000000000), Full: full(1000000000)},
				},
				Swap: &runtimeapi.SwapUsage{SwapUsageBytes: number(8192), SwapAvailableBytes: number(67108864 - 8192)},
				Io:   &runtimeapi.IoUsage{Psi: &runtimeapi.PsiStats{Some: some(5000000000), Full: full(4000000000)}},
			}
			testutil.Assert(t, proto.Equal(got, want), "got  %v\nwant %v", got, want)
		})
	}
}

// A stat that the kernel does not account is left out, and the others are present.
func TestStatsThatAreMissing(t *testing.T) {
	for name, test := range map[string]struct {
		kind   string
		remove []string
		left   func(*runtimeapi.ContainerStats) bool
	}{
		"no swap accounting": {v2Systemd, []string{"memory.swap.current", "memory.swap.max"},
			func(s *runtimeapi.ContainerStats) bool { return s.Swap == nil && s.Memory != nil && s.Cpu != nil }},
		"no pressure": {v2Systemd, []string{"cpu.pressure", "memory.pressure", "io.pressure"},
			func(s *runtimeapi.ContainerStats) bool { return s.Cpu.Psi == nil && s.Memory.Psi == nil && s.Io == nil }},
		"no memory limit": {v2Systemd, []string{"memory.max"},
			func(s *runtimeapi.ContainerStats) bool { return s.Memory.AvailableBytes == nil }},
		"no memory controller": {v2Systemd, []string{"memory.current"},
			func(s *runtimeapi.ContainerStats) bool { return s.Memory == nil && s.Swap == nil && s.Cpu != nil }},
		"no cpu controller": {v1Cgroupfs, []string{"cpuacct.usage"},
			func(s *runtimeapi.ContainerStats) bool { return s.Cpu == nil && s.Memory != nil }},
		"memory.stat of another kernel": {v2Systemd, nil, func(s *runtimeapi.ContainerStats) bool {
			m := s.Memory
			return m.UsageBytes.GetValue() == 10000000 && m.WorkingSetBytes == nil && m.AvailableBytes == nil &&
				m.RssBytes == nil &&
				m.PageFaults == nil && m.MajorPageFaults == nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t, test.kind)
			for _, file := range test.remove {
				removeEverywhere(t, n.root, file)
			}
			if test.remove == nil {
				path := filepath.Join(n.root, "kubepods.slice", "kubepods-poda.slice", "docker-c1.scope", "memory.stat")
				testutil.Must(t, os.WriteFile(path, []byte("new_line 1\n"), 0o644))
			}
			list := n.containers(t)
			testutil.Assert(t, len(list) == 1 && test.left(list[0]), "got %v", list)
		})
	}
}

func removeEverywhere(t *testing.T, root, name string) {
	t.Helper()
	removed := 0
	testutil.Must(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Name() == name {
			removed++
			return os.Remove(path)
		}
		return err
	}))
	testutil.Require(t, removed != 0, "no %s below %s", name, root)
}

// Lists leave out a container without a process or cgroup, and an ended container. A request by id reports 0 for an
// ended container. It leaves out the unknown usage of a running container.
func TestContainersThatAreGone(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *node){
		"process before the first sample": func(t *testing.T, n *node) {
			testutil.Must(t, os.RemoveAll(filepath.Join(n.proc, "5000002")))
		},
		"cgroup": func(t *testing.T, n *node) {
			testutil.Require(t, len(n.containers(t)) == 1, "not there before")
			testutil.Must(t, os.RemoveAll(n.root))
		},
		"process is another's": func(t *testing.T, n *node) {
			n.write(t, "5000002/cgroup", "0::/kubepods/poda/c2\n4:memory:/user.slice\n")
		},
		"no process": func(_ *testing.T, n *node) {
			n.container.Status.PID = 0
			n.cache.PutContainer(n.container)
		},
		"ended": func(_ *testing.T, n *node) {
			n.container.Status.Running = false
			n.container.Status.FinishedAt = time.Now()
			n.cache.PutContainer(n.container)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newTestNode(t, v1Cgroupfs)
			end(t, n)
			list := n.containers(t)
			testutil.Assert(t, len(list) == 0, "listed: %v", list)
			got := n.Container(t.Context(), n.cache.Snapshot(), &n.container)
			if n.container.Status.Running {
				testutil.Assert(t, got.Attributes.GetId() == "c1" && got.Cpu == nil && got.Memory == nil &&
					got.Swap == nil && got.Io == nil, "unknown, but %v", got)
				return
			}
			testutil.Assert(t, got.Attributes.GetId() == "c1" && got.Cpu.Timestamp != 0 &&
				got.Cpu.UsageCoreNanoSeconds.GetValue() == 0 && got.Memory.Timestamp != 0 &&
				got.Memory.UsageBytes.GetValue() == 0 && got.Memory.AvailableBytes == nil, "got %v", got)
		})
	}
}

// The cgroup is cached after the process has left, until the container has another process or is gone.
func TestTheCgroupIsRemembered(t *testing.T) {
	n := newTestNode(t, v2Systemd)
	testutil.Require(t, len(n.containers(t)) == 1, "not there")
	testutil.Must(t, os.Remove(filepath.Join(n.proc, "5000002", "cgroup")))
	testutil.Assert(t, len(n.containers(t)) == 1, "looked up again")
	n.container.Status.PID = 5000003 // after a restart
	n.cache.PutContainer(n.container)
	testutil.Assert(t, len(n.containers(t)) == 0, "the stats of the new process still come from the old cgroup")
	n.write(t, "5000003/cgroup", nodes[v2Systemd].container)
	testutil.Assert(t, len(n.containers(t)) == 1, "not found again")
	n.cache.RemoveContainer("c1")
	n.containers(t)
	testutil.Assert(t, !n.remembered()[entryKey{id: "c1"}], "not forgotten")
}

// Without an earlier sample, a call takes two samples with quickWindow between them. The next call takes one.
func TestNanoCoresOfTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTestNode(t, v1Cgroupfs)
		n.container.Status.StartedAt = time.Now().Add(-time.Hour)
		n.cache.PutContainer(n.container)
		usage := filepath.Join(n.root, "cpuacct", "kubepods", "poda", "c1", "cpuacct.usage")
		go func() {
			time.Sleep(quickWindow / 2)
			_ = os.WriteFile(usage, []byte("8050000000\n"), 0o644)
		}()
		begun := time.Now()
		list := n.containers(t)
		took := time.Since(begun)
		testutil.Assert(t, took >= quickWindow, "took %v", took)
		// 50 ms of CPU time in at least 100 ms.
		rate := list[0].Cpu.UsageNanoCores.GetValue()
		testutil.Assert(t, rate != 0 && rate <= 500000000, "%d nano cores", rate)
		got := list[0].Cpu.UsageCoreNanoSeconds.GetValue()
		testutil.Assert(t, got == 8050000000, "usage %d is older than the rate", got)
		begun = time.Now()
		n.containers(t)
		took = time.Since(begun)
		testutil.Assert(t, took < quickWindow, "the second call took %v", took)
	})
}
