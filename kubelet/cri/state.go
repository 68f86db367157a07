package cri

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/log"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// statusTimeout bounds one question for the runtime's status.
const statusTimeout = 10 * time.Second

// State is whether the runtime can be used, as its Status says (runtimeState in pkg/kubelet/runtime.go). Make one with
// NewState; it is safe for concurrent use.
type State struct {
	runtime *Runtime

	mu   sync.RWMutex
	last *runtimeapi.StatusResponse
	// runtimeErr and networkErr say why each is not ready.
	runtimeErr, networkErr error
}

// NewState makes a State that is not ready before Run has asked.
func NewState(runtime *Runtime) *State {
	unknown := errors.New("the runtime's status is not known yet")
	return &State{runtime: runtime, runtimeErr: unknown, networkErr: unknown}
}

// Runtime is nil when the runtime is ready, or says why not.
func (s *State) Runtime() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.runtimeErr
}

// Network is nil when the runtime's network is ready, or says why not.
func (s *State) Network() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.networkErr
}

// Last is the runtime's last answer, nil before the first one.
func (s *State) Last() *runtimeapi.StatusResponse {
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

// Run asks each period until ctx ends, sooner while something is wrong. Changed is called when the runtime or its
// network became ready, or ceased to be.
func (s *State) Run(ctx context.Context, period time.Duration, changed func()) {
	backoff := retryBackoff
	for {
		turned, err := s.ask(ctx)
		if turned {
			s.logReadiness(ctx)
			changed()
		}
		pause := period
		if err != nil {
			pause = min(backoff.Step(), period)
		} else {
			backoff = retryBackoff
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (s *State) logReadiness(ctx context.Context) {
	if err := s.Runtime(); err != nil {
		log.G(ctx).WithError(err).Warn("container runtime is not ready; pods run on and nothing is changed until it is")
		return
	}
	if err := s.Network(); err != nil {
		log.G(ctx).WithError(err).Warn("container runtime network is not ready; pods that need it wait until it is")
		return
	}
	log.G(ctx).Info("container runtime is ready")
}

// ask asks once and keeps the answer. Turned says that the runtime or its network became ready, or ceased to be.
func (s *State) ask(ctx context.Context) (turned bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answer, err := s.runtime.Status(ctx, false)
	if err != nil {
		return s.keep(nil, err, err), err
	}
	runtimeErr := conditionError(answer.GetStatus(), runtimeapi.RuntimeReady)
	networkErr := conditionError(answer.GetStatus(), runtimeapi.NetworkReady)
	return s.keep(answer, runtimeErr, networkErr), join(runtimeErr, networkErr)
}

func (s *State) keep(answer *runtimeapi.StatusResponse, runtimeErr, networkErr error) (turned bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turned = (s.runtimeErr == nil) != (runtimeErr == nil) || (s.networkErr == nil) != (networkErr == nil)
	s.runtimeErr, s.networkErr = runtimeErr, networkErr
	if answer != nil {
		s.last = answer
	}
	return turned
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
