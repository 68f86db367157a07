package podstats

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// volumeTimeout bounds the measuring of one volume. The part measured until then counts.
	volumeTimeout = time.Minute
	// rest is the pause after a measurement, in multiples of its duration: large volumes are measured less often.
	rest = 10
	// volumesWait bounds the wait for a measurement of all volumes. After that, the previous one counts.
	volumesWait = 2 * time.Second
)

// volumes measures the volumes of pods, one after the other, in a goroutine that ends after the last one.
type volumes struct {
	// onDisk is Options.OnDisk.
	onDisk func(pod *v1.Pod) map[string]string

	running sync.WaitGroup

	mu sync.Mutex
	// done is closed when the running measurement has ended. It is nil while no measurement runs.
	done chan struct{}
	// next is when another measurement may begin.
	next  time.Time
	known map[types.UID]map[string]Disk
}

// count returns the usage of each pod's volumes: a new measurement if it ends within volumesWait, else the previous
// one.
func (v *volumes) count(ctx context.Context, pods []*v1.Pod) map[types.UID]map[string]Disk {
	select {
	case <-v.begin(ctx, pods): // already closed if no measurement is due
	case <-time.After(volumesWait):
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known
}

// begin starts a measurement, unless one runs or the pause after the last one is not over. The returned channel is
// closed once no measurement runs.
func (v *volumes) begin(ctx context.Context, pods []*v1.Pod) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.done == nil && time.Now().Before(v.next) {
		done := make(chan struct{})
		close(done)
		return done
	}
	if v.done == nil {
		done := make(chan struct{})
		v.done = done
		v.running.Go(func() {
			defer close(done)
			began := time.Now()
			counted := v.countAll(ctx, pods)
			v.mu.Lock()
			defer v.mu.Unlock()
			v.known, v.done, v.next = counted, nil, time.Now().Add(rest*time.Since(began))
		})
	}
	return v.done
}

func (v *volumes) countAll(ctx context.Context, pods []*v1.Pod) map[types.UID]map[string]Disk {
	counted := map[types.UID]map[string]Disk{}
	for _, pod := range pods {
		counted[pod.UID] = map[string]Disk{}
		for name, dir := range v.onDisk(pod) {
			counted[pod.UID][name] = measureWithin(ctx, volumeTimeout, dir)
		}
	}
	return counted
}

// measureWithin is measure with a time limit.
func measureWithin(ctx context.Context, limit time.Duration, dir string) Disk {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	disk, err := measure(within, dir)
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).WithField("path", dir).Warn("disk usage of a directory was not measured completely")
	}
	return disk
}
