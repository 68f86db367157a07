package podstats

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

const (
	// statsTimeout bounds the runtime's answer.
	statsTimeout = 30 * time.Second
	// logsTimeout bounds the count of one pod's logs, of which there are few.
	logsTimeout = 5 * time.Second
)

// Runtime is the part of CRI that stats come from.
type Runtime interface {
	ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error)
}

// Options configure a Provider. All are required.
type Options struct {
	Runtime Runtime
	// Selector matches the pods of this kubelet.
	Selector map[string]string
	// PodLogsDir is the root of the logs.
	PodLogsDir string
	// OnDisk are the directories of a pod's volumes that take up disk, by the volumes' names.
	OnDisk func(pod *v1.Pod) map[string]string
}

// Provider knows what pods use. One goroutine may use it. What it counts ends with the contexts of Stats; Wait waits for
// that.
type Provider struct {
	opts    Options
	volumes volumes
}

// New makes a Provider; nothing is counted yet.
func New(opts Options) *Provider { return &Provider{opts: opts, volumes: volumes{onDisk: opts.OnDisk}} }

// Wait returns when nothing is counted any more.
func (p *Provider) Wait() { p.volumes.running.Wait() }

// Pod is what one pod uses.
type Pod struct {
	// Memory is its working set in bytes; nil where the runtime does not say.
	Memory *int64
	// Containers are those that exist or have logs, by name.
	Containers map[string]Container
	// Volumes are those that take up disk, by name.
	Volumes map[string]Disk
}

// Container is what a container uses; the writable layer is that of its newest attempt.
type Container struct {
	Memory              *int64
	WritableLayer, Logs Disk
	attempt             uint32
}

// Stats is what each of the pods uses. After an error it is what could be found out nevertheless, without what the runtime
// would have said.
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
	return stats, p.addRuntime(ctx, stats)
}

// addRuntime adds what the runtime says.
func (p *Provider) addRuntime(ctx context.Context, stats map[types.UID]Pod) error {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	list, err := p.opts.Runtime.ListPodSandboxStats(ctx, &runtimeapi.PodSandboxStatsFilter{LabelSelector: p.opts.Selector})
	if err != nil {
		return fmt.Errorf("the runtime's pod stats: %w", err)
	}
	for _, sandbox := range list {
		uid := types.UID(sandbox.GetAttributes().GetMetadata().GetUid())
		of, ok := stats[uid]
		if !ok {
			continue
		}
		// While one sandbox takes the place of another there are two: the pod's memory is that of both.
		of.Memory = plus(of.Memory, workingSet(sandbox.GetLinux().GetMemory()))
		for _, c := range sandbox.GetLinux().GetContainers() {
			addContainer(of.Containers, c)
		}
		stats[uid] = of
	}
	return nil
}

func addContainer(containers map[string]Container, stats *runtimeapi.ContainerStats) {
	name := stats.GetAttributes().GetLabels()[model.LabelContainerName]
	if name == "" {
		name = stats.GetAttributes().GetMetadata().GetName()
	}
	known, attempt := containers[name], stats.GetAttributes().GetMetadata().GetAttempt()
	if attempt < known.attempt {
		return
	}
	known.attempt, known.Memory = attempt, workingSet(stats.GetMemory())
	known.WritableLayer = Disk{
		Bytes: int64(stats.GetWritableLayer().GetUsedBytes().GetValue()), Inodes: int64(stats.GetWritableLayer().GetInodesUsed().GetValue()),
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
