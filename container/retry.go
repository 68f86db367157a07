package container

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"k8s.io/apimachinery/pkg/util/wait"
)

// retryBackoff is the pause between two attempts to resume a log or a container, or to remove a directory.
var retryBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: math.MaxInt, Cap: time.Minute}

// retry calls try until it succeeds or ctx ends, with growing pauses. It logs the errors.
func retry(ctx context.Context, failed string, try func() error) {
	for backoff := retryBackoff; ; {
		err := try()
		if err == nil || ctx.Err() != nil {
			return
		}
		log.G(ctx).WithError(err).Warn(failed + ", trying again")
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return
		}
	}
}

// unresumed are the ids of containers whose logs Recover could not resume. The zero value is empty.
type unresumed struct {
	mu  sync.Mutex
	ids []string
}

func (u *unresumed) add(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ids = append(u.ids, id)
}

// take returns the ids and forgets them.
func (u *unresumed) take() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids := u.ids
	u.ids = nil
	return ids
}

// retryLog resumes a container's log, with retries, while the container exists and ctx lasts.
func (s *Service) retryLog(ctx context.Context, id string) {
	for backoff := retryBackoff; ; {
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return
		}
		c, err := s.find(id)
		if errdefs.IsNotFound(err) {
			return
		}
		if err == nil {
			err = s.recoverLog(log.WithLogger(ctx, log.G(ctx).WithFields(c.LogFields())), c)
		}
		if err == nil {
			log.G(ctx).WithFields(c.LogFields()).Info("container log is resumed")
			return
		}
		log.G(ctx).WithError(err).WithField("containerID", id).Debug("cannot resume container log")
	}
}
