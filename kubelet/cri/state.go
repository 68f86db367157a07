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

// statusTimeout bounds one call of Status.
const statusTimeout = 10 * time.Second

// State keeps the runtime's readiness, as its Status call reports it (runtimeState in pkg/kubelet/runtime.go). Make one
// with NewState. It is safe for concurrent use.
type State struct {
	runtime *Runtime

	mu                     sync.RWMutex
	last                   *runtimeapi.StatusResponse
	runtimeErr, networkErr error
}

// NewState makes a State that is not ready until Run has called Status.
func NewState(runtime *Runtime) *State {
	unknown := errors.New("the runtime's status is not known yet")
	return &State{runtime: runtime, runtimeErr: unknown, networkErr: unknown}
}

// Runtime returns why the runtime is not ready, or nil if it is ready.
func (s *State) Runtime() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.runtimeErr
}

// Network returns why the runtime's network is not ready, or nil if it is ready.
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

// Run calls Status each period until ctx ends, and sooner after an error. Changed is called when the readiness of the
// runtime or its network changes.
func (s *State) Run(ctx context.Context, period time.Duration, changed func()) {
	backoff := RetryBackoff()
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
			backoff = RetryBackoff()
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
		log.G(ctx).WithError(err).Warn("container runtime is not ready; until it is ready, pods run on unchanged")
		return
	}
	if err := s.Network(); err != nil {
		log.G(ctx).WithError(err).Warn("container runtime network is not ready; pods that need the pod network wait")
		return
	}
	log.G(ctx).Info("container runtime is ready")
}

// ask calls Status and keeps the answer. Turned says that the readiness of the runtime or its network changed.
func (s *State) ask(ctx context.Context) (turned bool, err error) {
	within, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answer, err := s.runtime.Status(within, false)
	if ctx.Err() != nil { // the end of Run cancelled the call: err says nothing about the runtime
		return false, ctx.Err()
	}
	if err != nil {
		return s.keep(nil, err, err), err
	}
	runtimeErr := conditionError(answer.GetStatus(), runtimeapi.RuntimeReady)
	networkErr := conditionError(answer.GetStatus(), runtimeapi.NetworkReady)
	return s.keep(answer, runtimeErr, networkErr), errors.Join(runtimeErr, networkErr)
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
