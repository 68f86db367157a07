package podstats

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	// statsTimeout bounds the call of ListPodSandboxStats.
	statsTimeout = 30 * time.Second
	// logsTimeout bounds the measuring of a container's logs.
	logsTimeout = 5 * time.Second
)

// Runtime is the part of CRI that stats come from.
type Runtime interface {
	ListPodSandboxStats(ctx context.Context,
		filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// Options configure a Provider. All are required.
type Options struct {
	Runtime Runtime
	// Selector matches the pods of this kubelet.
	Selector map[string]string
	// PodLogsDir is the root of the logs.
	PodLogsDir string
	// OnDisk returns the directories of a pod's volumes on disk, by the volumes' names.
	OnDisk func(pod *v1.Pod) map[string]string
}

// Provider measures the usage of pods. Only one goroutine may call Stats. Stats also measures in the background, at
// most until its context ends. Wait waits for that work.
type Provider struct {
	opts    Options
	volumes volumes
	last    atomic.Pointer[map[types.UID]Pod]
}

// New makes a Provider. It measures nothing yet.
func New(opts Options) *Provider { return &Provider{opts: opts, volumes: volumes{onDisk: opts.OnDisk}} }

// Wait returns when the background work has ended.
func (p *Provider) Wait() { p.volumes.running.Wait() }

// Pod is the usage of one pod.
type Pod struct {
	// Memory is the working set in bytes, nil if the runtime does not report it.
	Memory *int64
	// Processes is the number of processes and threads, 0 if the runtime does not report it.
	Processes int64
	// Containers are the containers that exist or have logs, by name.
	Containers map[string]Container
	// Volumes are the volumes on disk, by name.
	Volumes map[string]Disk
}

// Places selects where a pod's files are counted.
type Places struct{ WritableLayers, Logs, Volumes bool }

// Everything is all places.
var Everything = Places{WritableLayers: true, Logs: true, Volumes: true}

// DiskUsage is the pod's disk usage in the selected places.
func (p Pod) DiskUsage(in Places) Disk {
	var sum Disk
	for _, c := range p.Containers {
		if in.WritableLayers {
			sum = sum.Plus(c.WritableLayer)
		}
		if in.Logs {
			sum = sum.Plus(c.Logs)
		}
	}
	for _, used := range p.Volumes {
		if in.Volumes {
			sum = sum.Plus(used)
		}
	}
	return sum
}

// Container is the usage of a container. Memory and WritableLayer are for its newest attempt.
type Container struct {
	Memory              *int64
	WritableLayer, Logs Disk
	attempt             uint32
}

// Stats returns the usage of the pods. After an error it lacks the runtime's part.
func (p *Provider) Stats(ctx context.Context, pods []*v1.Pod) (map[types.UID]Pod, error) {
	stats := map[types.UID]Pod{}
	inVolumes := p.volumes.count(ctx, pods)
	for _, pod := range pods {
		of := Pod{Containers: map[string]Container{}, Volumes: inVolumes[pod.UID]}
		dir := model.PodLogDirectory(p.opts.PodLogsDir, pod)
		model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) {
			if logs := measureWithin(ctx, logsTimeout, filepath.Join(dir, c.Name)); logs.Inodes > 0 {
				of.Containers[c.Name] = Container{Logs: logs}
			}
		})
		stats[pod.UID] = of
	}
	err := p.addRuntime(ctx, stats)
	p.last.Store(&stats)
	return stats, err
}

// Last returns the last answer of Stats, nil before the first. The caller must not change it. It is safe for concurrent
// use.
func (p *Provider) Last() map[types.UID]Pod {
	if last := p.last.Load(); last != nil {
		return *last
	}
	return nil
}

// addRuntime adds the usage that the runtime reports.
func (p *Provider) addRuntime(ctx context.Context, stats map[types.UID]Pod) error {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	list, err := p.opts.Runtime.ListPodSandboxStats(ctx,
		&runtimeapi.PodSandboxStatsFilter{LabelSelector: p.opts.Selector})
	if err != nil {
		return fmt.Errorf("the runtime's pod stats: %w", err)
	}
	for _, sandbox := range list {
		uid := types.UID(sandbox.GetAttributes().GetMetadata().GetUid())
		of, ok := stats[uid]
		if !ok {
			continue
		}
		// While a sandbox is replaced, the pod has two sandboxes. Its memory is the sum over both sandboxes.
		of.Memory = plus(of.Memory, workingSet(sandbox.GetLinux().GetMemory()))
		of.Processes += int64(sandbox.GetLinux().GetProcess().GetProcessCount().GetValue())
		for _, c := range sandbox.GetLinux().GetContainers() {
			addContainer(of.Containers, c)
		}
		stats[uid] = of
	}
	return nil
}

func addContainer(containers map[string]Container, stats *runtimeapi.ContainerStats) {
	attributes := stats.GetAttributes()
	name := cmp.Or(attributes.GetLabels()[model.LabelContainerName], attributes.GetMetadata().GetName())
	known, attempt := containers[name], attributes.GetMetadata().GetAttempt()
	if attempt < known.attempt {
		return
	}
	known.attempt, known.Memory = attempt, workingSet(stats.GetMemory())
	known.WritableLayer = Disk{
		Bytes:  int64(stats.GetWritableLayer().GetUsedBytes().GetValue()),
		Inodes: int64(stats.GetWritableLayer().GetInodesUsed().GetValue()),
	}
	containers[name] = known
}

func workingSet(memory *runtimeapi.MemoryUsage) *int64 {
	if memory.GetWorkingSetBytes() == nil {
		return nil
	}
	return new(int64(memory.GetWorkingSetBytes().GetValue()))
}

func plus(a, b *int64) *int64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	return new(*a + *b)
}
