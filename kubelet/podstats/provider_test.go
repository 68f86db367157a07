package podstats

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/model/modeltest"
)

type runtime struct {
	stats []*runtimeapi.PodSandboxStats
	err   error
}

func (r runtime) ListPodSandboxStats(
	_ context.Context, filter *runtimeapi.PodSandboxStatsFilter,
) ([]*runtimeapi.PodSandboxStats, error) {
	if filter.GetLabelSelector()[model.LabelOwner] != "us" {
		return nil, errors.New("pods of others")
	}
	return r.stats, r.err
}

func number(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

func sandbox(uid string, memory uint64, containers ...*runtimeapi.ContainerStats) *runtimeapi.PodSandboxStats {
	return &runtimeapi.PodSandboxStats{
		Attributes: &runtimeapi.PodSandboxAttributes{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid}},
		Linux: &runtimeapi.LinuxPodSandboxStats{Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: number(memory)},
			Containers: containers},
	}
}

func containerOf(name string, attempt uint32, memory, layer uint64) *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}},
		Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: number(memory)},
		WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: number(layer), InodesUsed: number(3)},
	}
}

func TestStats(t *testing.T) {
	logs, volume := t.TempDir(), t.TempDir()
	pod := modeltest.Pod(v1.RestartPolicyAlways, "init:i app:a app:b")
	write(t, filepath.Join(model.PodLogDirectory(logs, pod), "a", "0.log"), 1<<20)
	write(t, filepath.Join(model.PodLogDirectory(logs, pod), "a", "0.log.20260102-150405"), 1<<20)
	write(t, filepath.Join(volume, "x"), 3<<20)
	under := runtime{stats: []*runtimeapi.PodSandboxStats{
		sandbox("uid", 500, containerOf("a", 1, 200, 1000), containerOf("b", 0, 300, 2000)),
		sandbox("uid", 50, containerOf("a", 0, 50, 9000)),
		sandbox("stranger", 9999),
	}}
	p := New(Options{
		Runtime: &under, Selector: map[string]string{model.LabelOwner: "us"}, PodLogsDir: logs,
		OnDisk: func(*v1.Pod) map[string]string {
			return map[string]string{"v": volume, "missing": filepath.Join(volume, "no")}
		},
	})
	t.Cleanup(p.Wait)
	p.volumes.begin(t.Context(), []*v1.Pod{pod})
	p.Wait()
	stats, err := p.Stats(t.Context(), []*v1.Pod{pod})
	testutil.Require(t, err == nil && len(stats) == 1, "%v, %v", stats, err)
	of := stats["uid"]
	testutil.Assert(t, *of.Memory == 550 && len(of.Containers) == 2, "%+v", of)
	a, b := of.Containers["a"], of.Containers["b"]
	testutil.Assert(t, *a.Memory == 200 && a.WritableLayer == (Disk{1000, 3}) && *b.Memory == 300 &&
		b.WritableLayer == (Disk{2000, 3}) && b.Logs == (Disk{}), "a %+v, b %+v", a, b)
	between(t, "logs", a.Logs.Bytes, 2<<20)
	between(t, "volume", of.Volumes["v"].Bytes, 3<<20)
	missing, ok := of.Volumes["missing"]
	testutil.Assert(t, ok && missing == (Disk{}), "a missing volume has the usage %+v", missing)

	under.err = errors.New("down")
	stats, err = p.Stats(t.Context(), []*v1.Pod{pod})
	testutil.Assert(t, errors.Is(err, under.err) && stats["uid"].Memory == nil, "%+v, %v", stats, err)
	between(t, "logs without the runtime", stats["uid"].Containers["a"].Logs.Bytes, 2<<20)
}

// TestSlowVolumes: the wait for a long measurement is bounded. Until the measurement ends, the previous result counts,
// and no other measurement begins.
func TestSlowVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pod := modeltest.Pod(v1.RestartPolicyAlways, "app:a")
		var begun atomic.Int32
		release := make(chan struct{})
		v := volumes{onDisk: func(*v1.Pod) map[string]string {
			begun.Add(1)
			<-release
			return map[string]string{"v": "/does/not/exist"}
		}}
		began := time.Now()
		for range 2 {
			got := v.count(ctx, []*v1.Pod{pod})
			testutil.Assert(t, len(got) == 0, "counted %v", got)
		}
		took := time.Since(began)
		testutil.Assert(t, took == 2*volumesWait && begun.Load() == 1,
			"two calls took %v and %d counts", took, begun.Load())
		close(release)
		synctest.Wait()
		if got := v.count(ctx, []*v1.Pod{pod}); len(got["uid"]) != 1 || begun.Load() != 1 {
			t.Errorf("a long measurement is followed by another at once: %v", got)
		}
		time.Sleep(rest * 2 * volumesWait)
		got := v.count(ctx, []*v1.Pod{pod})
		testutil.Assert(t, len(got["uid"]) == 1 && begun.Load() == 2, "after the pause: %v with %d counts", got,
			begun.Load())
		cancel()
		v.running.Wait()
	})
}
