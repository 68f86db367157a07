package stats

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/state"
)

// Containers returns the stats of the containers that run, in their order. It leaves out a container that ends
// meanwhile. snapshot must be the one that has the containers. The collector drops its entries of containers and pods
// that snapshot lacks.
func (c *Collector) Containers(
	ctx context.Context, snapshot *state.Snapshot, containers []*state.Container,
) []*runtimeapi.ContainerStats {
	c.forget(snapshot)
	containers = running(containers)
	targets := make([]target, len(containers))
	for i, container := range containers {
		targets[i] = containerTarget(snapshot.PodOf(container), container)
	}
	samples := c.sampleAll(ctx, targets, criStats)
	all := make([]*runtimeapi.ContainerStats, 0, len(containers))
	for i, container := range containers {
		if samples[i].cgroup != nil {
			all = append(all, c.containerStats(container, samples[i]))
		}
	}
	return all
}

func running(containers []*state.Container) []*state.Container {
	var some []*state.Container
	for _, container := range containers {
		if container.Status.State() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			some = append(some, container)
		}
	}
	return some
}

// Container returns the stats of one container. A container that does not run uses 0, and still has its writable layer.
// The usage of a running container is left out if its cgroup is gone or unreadable.
func (c *Collector) Container(
	ctx context.Context, snapshot *state.Snapshot, container *state.Container,
) *runtimeapi.ContainerStats {
	if container.Status.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return c.containerStats(container, zeroSample())
	}
	targets := []target{containerTarget(snapshot.PodOf(container), container)}
	return c.containerStats(container, c.sampleAll(ctx, targets, criStats)[0])
}

// zeroSample is the sample of a container that does not run.
func zeroSample() sample {
	return sample{
		cgroupStats: cgroupStats{
			taken:     time.Now(),
			cpu:       &cpuStats{},
			memory:    noMemory(),
			processes: &pidsStats{},
		},
		nanoCores: new(uint64),
	}
}

func (c *Collector) containerStats(container *state.Container, found sample) *runtimeapi.ContainerStats {
	config := container.Meta.Config
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id:          container.ID,
			Metadata:    config.GetMetadata(),
			Labels:      config.GetLabels(),
			Annotations: config.GetAnnotations(),
		},
		Cpu:           cpuUsage(found),
		Memory:        memoryUsage(found),
		Swap:          swapUsage(found),
		Io:            ioUsage(found),
		WritableLayer: c.writableLayer(container),
	}
}

// writableLayer returns the last count of a container's writable layer, nil before the first count.
func (c *Collector) writableLayer(container *state.Container) *runtimeapi.FilesystemUsage {
	layer, ok := c.layers.get(container)
	if !ok {
		return nil
	}
	return &runtimeapi.FilesystemUsage{
		Timestamp:  layer.taken.UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: layer.mountpoint},
		UsedBytes:  number(layer.bytes),
		InodesUsed: number(layer.inodes),
	}
}
