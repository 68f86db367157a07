package sandbox

import (
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// flights are the set-ups under way and those whose result nobody has got yet,
// by the sandbox's name.
type flights struct {
	// gone reports whether a finished pod is there no more.
	gone func(id string) bool

	mu     sync.Mutex
	byName map[string]*flight
}

// flight is one set-up. id and err are set before done is closed.
type flight struct {
	config  *runtimeapi.PodSandboxConfig
	handler string

	done chan struct{}
	id   string
	err  error
}

// join returns the flight of a request: a new one, or the one of the same
// request sent before. Another request under the name fails with
// ErrAlreadyExists.
func (f *flights) join(name string, config *runtimeapi.PodSandboxConfig, handler string) (fl *flight, isNew bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.byName[name]; ok && !f.stale(fl) {
		if fl.handler != handler || !proto.Equal(fl.config, config) {
			return nil, false, fmt.Errorf("pod sandbox %s is being created with another configuration: %w", name, errdefs.ErrAlreadyExists)
		}
		return fl, false, nil
	}
	fl = &flight{config: config, handler: handler, done: make(chan struct{})}
	if f.byName == nil {
		f.byName = map[string]*flight{}
	}
	f.byName[name] = fl
	return fl, true, nil
}

// stale reports whether a flight's pod was taken away behind our back before
// anybody got to know it.
func (f *flights) stale(fl *flight) bool {
	select {
	case <-fl.done:
		return f.gone(fl.id)
	default:
		return false
	}
}

// end forgets a flight: its result was delivered, or it failed.
func (f *flights) end(name string, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byName[name] == fl {
		delete(f.byName, name)
	}
}

// drop forgets the undelivered result of a pod that is being stopped.
func (f *flights) drop(name, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fl, ok := f.byName[name]
	if !ok {
		return
	}
	select {
	case <-fl.done:
		if fl.id == id {
			delete(f.byName, name)
		}
	default:
	}
}
