package command

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/criadapter/criadapter/internal/sdnotify"
	"github.com/criadapter/criadapter/kubelet"
)

// patience bounds systemd's wait for the container runtime and the sources of pods, so that a missing runtime or source
// does not delay the boot.
const patience = 20 * time.Second

// supervision reports to systemd that the kubelet is ready, and feeds the watchdog while the kubelet is healthy.
type supervision struct {
	endpoint string
	// kubelet is nil while the runtime does not answer.
	kubelet atomic.Pointer[kubelet.Kubelet]
	// begun is closed when kubelet is set.
	begun  chan struct{}
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// supervise reports to systemd until end is called. The kubelet is ready when its runtime answers and all sources have
// listed their pods, or after patience.
func supervise(ctx context.Context, endpoint string) *supervision {
	s := &supervision{endpoint: endpoint, begun: make(chan struct{})}
	ctx, s.cancel = context.WithCancel(ctx)
	s.work.Go(func() {
		s.wait(ctx)
		if ctx.Err() != nil {
			return
		}
		sdnotify.Ready(ctx, s.status())
		sdnotify.Watchdog(ctx, s.check, s.status)
	})
	return s
}

// wait waits until the kubelet is ready, for patience at most.
func (s *supervision) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-s.begun:
	case <-ctx.Done():
		return
	}
	select {
	case <-s.kubelet.Load().SourcesSeen():
	case <-ctx.Done():
	}
}

// running records that the runtime answers and the kubelet begins.
func (s *supervision) running(k *kubelet.Kubelet) {
	s.kubelet.Store(k)
	close(s.begun)
}

// end tells systemd that the kubelet ends.
func (s *supervision) end(ctx context.Context) {
	s.cancel()
	s.work.Wait()
	sdnotify.Stopping(ctx)
}

func (s *supervision) check(context.Context) error {
	if k := s.kubelet.Load(); k != nil {
		return k.Healthy()
	}
	return nil
}

// status is the status in `systemctl status`.
func (s *supervision) status() string {
	if k := s.kubelet.Load(); k != nil {
		return fmt.Sprintf("%d pods", k.PodCount())
	}
	return "Waiting for the container runtime at " + s.endpoint
}
