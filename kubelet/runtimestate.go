package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cri"
)

// statusTimeout bounds one question for the runtime's status.
const statusTimeout = 10 * time.Second

// runtimeState is whether the runtime can be used.
type runtimeState struct {
	runtime *cri.Runtime

	mu  sync.RWMutex
	err error
}

func newRuntimeState(runtime *cri.Runtime) *runtimeState {
	return &runtimeState{runtime: runtime, err: errors.New("the runtime's status is not known yet")}
}

// Err is nil when runtime and network are ready, or says why not.
func (s *runtimeState) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.err
}

// run asks until ctx ends, sooner while something is wrong.
func (s *runtimeState) run(ctx context.Context, period time.Duration) {
	pause := firstPause
	for {
		err := s.ask(ctx)
		s.note(err)
		wait := period
		if err != nil {
			wait, pause = min(pause, period), min(2*pause, lastPause)
		} else {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (s *runtimeState) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.err == nil) != (err == nil) {
		if err != nil {
			logrus.WithError(err).Warn("The container runtime is not ready; pods run on and nothing is changed until it is")
		} else {
			logrus.Info("The container runtime is ready")
		}
	}
	s.err = err
}

func (s *runtimeState) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answer, err := s.runtime.Status(ctx, false)
	if err != nil {
		return err
	}
	return errors.Join(
		conditionError(answer.GetStatus(), runtimeapi.RuntimeReady),
		conditionError(answer.GetStatus(), runtimeapi.NetworkReady),
	)
}

func conditionError(status *runtimeapi.RuntimeStatus, kind string) error {
	for _, condition := range status.GetConditions() {
		if condition.GetType() != kind {
			continue
		}
		if condition.GetStatus() {
			return nil
		}
		return fmt.Errorf("%s is false: %s: %s", kind, condition.GetReason(), condition.GetMessage())
	}
	return fmt.Errorf("the runtime does not report %s", kind)
}
