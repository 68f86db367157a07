package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// inflightRuns are the set-ups that are under way or whose result is undelivered, by the sandbox's name.
type inflightRuns struct {
	// gone reports whether a finished pod no longer exists, or is not READY any more.
	gone func(id string) bool

	mu     sync.Mutex
	byName map[string]*inflightRun
}

// inflightRun is one set-up. id and err are set before done is closed.
type inflightRun struct {
	config  *runtimeapi.PodSandboxConfig
	handler string

	done chan struct{}
	id   string
	err  error

	// waiting is the number of requests that wait for the result. The mutex of inflightRuns guards it.
	waiting int
}

// join returns the run of a request, which then waits for it. A repeated request gets the run of the first one. A
// different request for the same name fails with ErrAlreadyExists.
func (f *inflightRuns) join(
	name string, config *runtimeapi.PodSandboxConfig, handler string,
) (run *inflightRun, isNew bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run, ok := f.byName[name]; ok && !f.stale(run) {
		if run.handler != handler || !proto.Equal(run.config, config) {
			return nil, false, fmt.Errorf("pod sandbox %s is being created with another configuration: %w", name,
				errdefs.ErrAlreadyExists)
		}
		run.waiting++
		return run, false, nil
	}
	run = &inflightRun{config: config, handler: handler, done: make(chan struct{}), waiting: 1}
	if f.byName == nil {
		f.byName = map[string]*inflightRun{}
	}
	f.byName[name] = run
	return run, true, nil
}

// names returns the names of the pods.
func (f *inflightRuns) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.byName))
}

// stale reports whether a run's pod was removed or has ended before its result was delivered.
func (f *inflightRuns) stale(run *inflightRun) bool {
	select {
	case <-run.done:
		return f.gone(run.id)
	default:
		return false
	}
}

// end forgets a run: its result was delivered, or it failed.
func (f *inflightRuns) end(name string, run *inflightRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName[name] == run {
		delete(f.byName, name)
	}
}

// leave ends the wait of a request whose client is gone.
func (f *inflightRuns) leave(run *inflightRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	run.waiting--
}

// take forgets a finished run and returns true, if no request has got its result or waits for it.
func (f *inflightRuns) take(name string, run *inflightRun) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName[name] != run || run.waiting > 0 {
		return false
	}
	delete(f.byName, name)
	return true
}

// drop forgets the undelivered result of a pod that is being stopped.
func (f *inflightRuns) drop(name, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	run, ok := f.byName[name]
	if !ok {
		return
	}
	select {
	case <-run.done:
		if run.id == id {
			delete(f.byName, name)
		}
	default:
	}
}
