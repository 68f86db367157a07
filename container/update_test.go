package container

import (
	"context"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

const mib = 1 << 20

func update(id string, r *runtimeapi.LinuxContainerResources) *runtimeapi.UpdateContainerResourcesRequest {
	return &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: r}
}

func limited(n *node) *runtimeapi.ContainerConfig {
	config := n.config("sleep")
	config.Linux = &runtimeapi.LinuxContainerConfig{Resources: &runtimeapi.LinuxContainerResources{
		CpuPeriod: 100_000, CpuQuota: 50_000, CpuShares: 512, MemoryLimitInBytes: 64 * mib, OomScoreAdj: 900,
	}}
	return config
}

func TestUpdate(t *testing.T) {
	for _, start := range []string{"created", "running"} {
		t.Run(start, func(t *testing.T) {
			n, engine := newFakeNode(t)
			id := n.create(n.pod(), limited(n))
			if start == "running" {
				n.start(id)
			}
			testutil.Must(t, n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{
				CpuQuota: 80_000, MemoryLimitInBytes: 256 * mib, CpusetCpus: "0",
			})), "Update")
			want := &runtimeapi.LinuxContainerResources{
				CpuPeriod: 100_000, CpuQuota: 80_000, CpuShares: 512, MemoryLimitInBytes: 256 * mib, CpusetCpus: "0",
				OomScoreAdj: 900,
			}
			got := n.look(id).Status.Resources.GetLinux()
			testutil.Assert(t, proto.Equal(got, want), "the cache has %v, want %v", got, want)
			inspect, err := engine.InspectContainer(t.Context(), id)
			testutil.Must(t, err)
			if h := inspect.HostConfig; h.Memory != 256*mib || h.MemorySwap != 256*mib || h.CPUQuota != 80_000 ||
				h.CpusetCpus != "0" {
				t.Errorf("the engine has memory %d, swap %d, quota %d, cpus %q", h.Memory, h.MemorySwap, h.CPUQuota,
					h.CpusetCpus)
			}
			n.restart(func() {})
			got = n.look(id).Status.Resources.GetLinux()
			testutil.Assert(t, proto.Equal(got, want), "after a restart the cache has %v, want %v", got, want)
		})
	}
}

// notedEngine is an engine whose containers have OCI notes.
type notedEngine struct {
	*dockertest.Engine
	limits docker.NoteLimits
}

func (e *notedEngine) LimitNote(
	_ context.Context, _ string, limits docker.NoteLimits,
) (old docker.NoteLimits, err error) {
	old, e.limits = e.limits, limits
	return old, nil
}

// A container that has not started gets its limits through its OCI note. If the new limits cannot be recorded, the note
// has the old ones again.
func TestUpdateOfANote(t *testing.T) {
	plain, inner := newFakeNode(t)
	plain.shutDown()
	engine := &notedEngine{Engine: inner}
	n := newNode(t, engine, "busybox", "pause")
	id := n.create(n.pod(), limited(n))
	for _, value := range []string{"1000000", "2000000"} {
		testutil.Must(t, n.Update(t.Context(),
			update(id, &runtimeapi.LinuxContainerResources{Unified: map[string]string{"memory.low": value}})))
		testutil.Equal(t, engine.limits.Unified["memory.low"], value, "the note")
	}
	n.withoutStore(func() {
		err := n.Update(t.Context(),
			update(id, &runtimeapi.LinuxContainerResources{Unified: map[string]string{"memory.low": "3"}}))
		testutil.Assert(t, err != nil, "Update succeeded")
	})
	testutil.Equal(t, engine.limits.Unified["memory.low"], "2000000", "after a failed update the note")
}

// The kubelet sets memory.high on cgroup v2 and must never get an error for it.
func TestUpdateOfMemoryHigh(t *testing.T) {
	n, _ := newFakeNode(t)
	id := n.create(n.pod(), limited(n))
	if err := n.Update(t.Context(),
		update(id, &runtimeapi.LinuxContainerResources{Unified: map[string]string{"memory.high": "max"}})); err != nil {
		t.Errorf("Update: %v", err)
	}
}

func TestUpdateRefuses(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), limited(n))
	before := n.look(id).Status.Resources
	if err := n.Update(t.Context(), update(id, nil)); !errdefs.IsInvalidArgument(err) ||
		!strings.Contains(err.Error(), "linux") {
		t.Errorf("without a Linux part: %v", err)
	}
	testutil.Fails(t, n.Update(t.Context(), nil), errdefs.IsInvalidArgument, "without a request")
	testutil.Fails(t, n.Update(t.Context(), update("feedbeef", &runtimeapi.LinuxContainerResources{CpuShares: 2})),
		errdefs.IsNotFound, "unknown id")
	err := n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{CpuShares: 2, CpusetCpus: "x"}))
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "linux.cpuset_cpus"),
		"bad cpuset: %v", err)
	engine.Inject("UpdateContainer", dockertest.Fault{Err: errdefs.ErrInternal.WithMessage("no"), Times: 1})
	testutil.Fails(t, n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{CpuShares: 2})),
		errdefs.IsInternal, "the engine refuses")
	got := n.look(id).Status.Resources
	testutil.Assert(t, proto.Equal(got, before), "after refused updates the cache has %v, want %v", got, before)
	n.start(id)
	n.exit(engine, id, 0)
	testutil.Fails(t, n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{CpuShares: 2})),
		errdefs.IsFailedPrecondition, "ended container")
}

// An update that cannot be recorded would be forgotten by the next start of criadapter: it is taken back.
func TestUpdateThatCannotBeRecorded(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), limited(n))
	n.withoutStore(func() {
		err := n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 256 * mib}))
		testutil.Assert(t, err != nil, "Update succeeded")
	})
	inspect, err := engine.InspectContainer(t.Context(), id)
	testutil.Must(t, err)
	if inspect.HostConfig.Memory != 64*mib || n.look(id).Status.Resources.GetLinux().GetMemoryLimitInBytes() != 64*mib {
		t.Errorf("the engine has %d, the cache %v", inspect.HostConfig.Memory, n.look(id).Status.Resources)
	}
}

func TestMergeResources(t *testing.T) {
	type r = runtimeapi.LinuxContainerResources
	pages := func(limit uint64) []*runtimeapi.HugepageLimit {
		return []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: limit}}
	}
	tests := []struct {
		name              string
		old, change, want *r
	}{
		{"nothing known", nil, &r{CpuShares: 2}, &r{CpuShares: 2}},
		{"unset fields stay", &r{CpuShares: 2, CpusetCpus: "0"}, &r{CpuQuota: 1000},
			&r{CpuShares: 2, CpusetCpus: "0", CpuQuota: 1000}},
		{"swap keeps its size", &r{MemoryLimitInBytes: 10, MemorySwapLimitInBytes: 15}, &r{MemoryLimitInBytes: 100},
			&r{MemoryLimitInBytes: 100, MemorySwapLimitInBytes: 105}},
		{"swap given", &r{MemoryLimitInBytes: 10, MemorySwapLimitInBytes: 15},
			&r{MemoryLimitInBytes: 100, MemorySwapLimitInBytes: 100},
			&r{MemoryLimitInBytes: 100, MemorySwapLimitInBytes: 100}},
		{"unlimited swap", &r{MemoryLimitInBytes: 10, MemorySwapLimitInBytes: -1}, &r{MemoryLimitInBytes: 100},
			&r{MemoryLimitInBytes: 100, MemorySwapLimitInBytes: -1}},
		{"lists are replaced", &r{HugepageLimits: pages(1)}, &r{HugepageLimits: pages(2)},
			&r{HugepageLimits: pages(2)}},
		{"maps are replaced", &r{Unified: map[string]string{"a": "1"}}, &r{Unified: map[string]string{"b": "2"}},
			&r{Unified: map[string]string{"b": "2"}}},
		{"the OOM score", &r{OomScoreAdj: 5}, &r{OomScoreAdj: 7}, &r{OomScoreAdj: 7}},
		{"no OOM score", &r{OomScoreAdj: 5}, &r{CpuShares: 7}, &r{OomScoreAdj: 5, CpuShares: 7}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var old, change *r
			if tt.old != nil {
				old = proto.Clone(tt.old).(*r)
			}
			change = proto.Clone(tt.change).(*r)
			got := mergeResources(old, change)
			testutil.Assert(t, proto.Equal(got, tt.want), "got %v, want %v", got, tt.want)
			testutil.Assert(t, (tt.old == nil || proto.Equal(old, tt.old)) && proto.Equal(change, tt.change),
				"an argument was changed")
		})
	}
}
