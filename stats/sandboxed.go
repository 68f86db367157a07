package stats

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/containerd/log"

	"github.com/criadapter/criadapter/state"
)

// Sandboxes measure containers whose runtime puts the whole pod into one sandbox of its own, such as gVisor. On the
// node only the whole sandbox can be measured, in the cgroup of the pod's sandbox container.
type Sandboxes interface {
	// Usage returns the usage of a running container. The zero value says that the pod has no such sandbox.
	Usage(ctx context.Context, pod *state.Pod, container string) (Usage, error)
}

// Usage is the usage of a container in a sandbox.
type Usage struct {
	// CPU is in nanoseconds since the container's start, Memory in bytes.
	CPU, Memory uint64
	Processes   uint64
}

// sampleSandboxed asks the runtime about a container that has no process of its own on the node.
func (c *Collector) sampleSandboxed(ctx context.Context, r *reader, t target) sample {
	if c.sandboxes == nil || t.pod == nil {
		return sample{}
	}
	g, err := c.locate(r, t.pod.ID, t.pod.Status.PID)
	if err != nil {
		return sample{}
	}
	taken := time.Now()
	usage, err := c.sandboxes.Usage(ctx, t.pod, t.id)
	if err != nil {
		log.G(ctx).WithError(err).WithField("containerID", t.id).Debug("cannot get usage of container from its runtime")
		return sample{}
	}
	if usage == (Usage{}) {
		return sample{}
	}
	memory := noMemory()
	memory.usage = usage.Memory
	return sample{
		// The runtime makes a cgroup without processes for the container.
		cgroup:    &cgroup{path: path.Join(path.Dir(g.path), strings.Replace(path.Base(g.path), t.pod.ID, t.id, 1))},
		sandboxed: true,
		cgroupStats: cgroupStats{
			taken: taken, cpu: &cpuStats{usage: usage.CPU}, memory: memory,
			processes: &pidsStats{tasks: usage.Processes},
		},
	}
}
