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
	changed func()

	mu   sync.RWMutex
	last *runtimeapi.StatusResponse
	// runtimeErr and networkErr say why each is not ready.
	runtimeErr, networkErr error
}

// newRuntimeState calls changed when the runtime or its network became ready, or ceased to be.
func newRuntimeState(runtime *cri.Runtime, changed func()) *runtimeState {
	unknown := errors.New("the runtime's status is not known yet")
	return &runtimeState{runtime: runtime, changed: changed, runtimeErr: unknown, networkErr: unknown}
}

// Err is nil when runtime and network are ready, or says why not.
func (s *runtimeState) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return join(s.runtimeErr, s.networkErr)
}

// Runtime is nil when the runtime is ready, or says why not.
func (s *runtimeState) Runtime() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.runtimeErr
}

// Network is nil when the runtime's network is ready, or says why not.
func (s *runtimeState) Network() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.networkErr
}

// Last is the runtime's last answer, nil before the first one.
func (s *runtimeState) Last() *runtimeapi.StatusResponse {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last
}

// join leaves out the second error where it is the first one again: a runtime that does not answer.
func join(runtimeErr, networkErr error) error {
	if runtimeErr == networkErr {
		return runtimeErr
	}
	return errors.Join(runtimeErr, networkErr)
}

// run asks until ctx ends, sooner while something is wrong.
func (s *runtimeState) run(ctx context.Context, period time.Duration) {
	pause := firstPause
	for {
		err := s.ask(ctx)
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

// ask asks once and keeps the answer.
func (s *runtimeState) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answer, err := s.runtime.Status(ctx, false)
	if err != nil {
		s.note(nil, err, err)
		return err
	}
	runtimeErr := conditionError(answer.GetStatus(), runtimeapi.RuntimeReady)
	networkErr := conditionError(answer.GetStatus(), runtimeapi.NetworkReady)
	s.note(answer, runtimeErr, networkErr)
	return join(runtimeErr, networkErr)
}

func (s *runtimeState) note(answer *runtimeapi.StatusResponse, runtimeErr, networkErr error) {
	s.mu.Lock()
	turned := (s.runtimeErr == nil) != (runtimeErr == nil) || (s.networkErr == nil) != (networkErr == nil)
	s.runtimeErr, s.networkErr = runtimeErr, networkErr
	if answer != nil {
		s.last = answer
	}
	s.mu.Unlock()
	if !turned {
		return
	}
	if err := join(runtimeErr, networkErr); err != nil {
		logrus.WithError(err).Warn("The container runtime is not ready; pods run on and nothing is changed until it is")
	} else {
		logrus.Info("The container runtime is ready")
	}
	s.changed()
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
