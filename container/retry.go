package container

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// A log that cannot be taken up is tried again after firstRetry, and then after pauses of twice the length each, up to
// lastRetry.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// unresumed are the ids of containers whose logs Recover could not take up. The zero value is none.
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

// retryLog takes up a container's log, as often as it takes, while the container exists and ctx lasts.
func (s *Service) retryLog(ctx context.Context, id string) {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		select {
		case <-time.After(pause):
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
