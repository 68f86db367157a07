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
	// volumeTimeout bounds the count of one volume. What was counted until then is at least what it takes.
	volumeTimeout = time.Minute
	// rest is how many times as long as a count took there is none after it: large volumes are counted less often.
	rest = 10
	// volumesWait bounds how long a count of all volumes is waited for; after that the one before has to do.
	volumesWait = 2 * time.Second
)

// volumes counts the volumes of pods, one after the other, in a goroutine that ends when all are counted.
type volumes struct {
	// onDisk are the directories of a pod's volumes that take up disk, by the volumes' names.
	onDisk func(pod *v1.Pod) map[string]string

	running sync.WaitGroup

	mu sync.Mutex
	// done is closed when the running count has ended; it is nil while none runs.
	done chan struct{}
	// next is when another count may begin.
	next  time.Time
	known map[types.UID]map[string]Disk
}

// count returns what is known of each pod's volumes after a new count, if that is quick, else by the one before.
func (v *volumes) count(ctx context.Context, pods []*v1.Pod) map[types.UID]map[string]Disk {
	select {
	case <-v.begin(ctx, pods): // at once where none is due
	case <-time.After(volumesWait):
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.known
}

// begin starts a count unless one runs, or ran a short while ago; the channel is closed at its end.
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

// measureWithin is measure with a bound on its time.
func measureWithin(ctx context.Context, limit time.Duration, dir string) Disk {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	disk, err := measure(within, dir)
	if err != nil && ctx.Err() == nil {
		log.G(ctx).WithError(err).WithField("path", dir).Warn("disk usage of a directory was not counted whole")
	}
	return disk
}
