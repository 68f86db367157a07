package dockertest

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/errdefs"
)

// Fault makes calls of one kind fail, wait or hang. The zero value makes every such call fail with ErrUnavailable.
type Fault struct {
	// Object limits the fault to calls about this object. It is the id or name in the call, the reference of an image,
	// or the name of a container to create. Empty means any.
	Object string
	// Times limits the fault to that many calls. Zero means every call until
	// the fault is removed.
	Times int
	// Err is the error of the call. Nil means errdefs.ErrUnavailable, or no error if Delay or Block is set.
	Err error
	// AfterEffect lets the call take effect before it fails.
	AfterEffect bool
	// Delay is the time that the call waits before it goes on.
	Delay time.Duration
	// Block lets the call wait until its context ends.
	Block bool
}

// Inject injects a fault into calls of Engine's method with that name ("CreateContainer"), until remove is called. If
// several faults fit a call, the oldest one counts.
func (e *Engine) Inject(call string, fault Fault) (remove func()) {
	return e.faults.add(call, fault)
}

// Calls returns the number of calls of Engine's method with that name so far.
func (e *Engine) Calls(call string) int {
	e.faults.mu.Lock()
	defer e.faults.mu.Unlock()
	return e.faults.calls[call]
}

type faults struct {
	mu    sync.Mutex
	list  []*injection
	calls map[string]int
}

type injection struct {
	call  string
	left  int
	fault Fault
}

func (f *faults) add(call string, fault Fault) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	added := &injection{call: call, left: fault.Times, fault: fault}
	f.list = append(f.list, added)
	return func() { f.remove(added) }
}

func (f *faults) remove(gone *injection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, injected := range f.list {
		if injected == gone {
			f.list = append(f.list[:i:i], f.list[i+1:]...)
			return
		}
	}
}

// next counts a call and returns its fault, nil for none.
func (f *faults) next(call, object string) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call]++
	for i, injected := range f.list {
		if injected.call != call || (injected.fault.Object != "" && injected.fault.Object != object) {
			continue
		}
		if injected.fault.Times > 0 {
			injected.left--
			if injected.left == 0 {
				f.list = append(f.list[:i:i], f.list[i+1:]...)
			}
		}
		fault := injected.fault
		return &fault
	}
	return nil
}

// err returns the error of the fault, nil for a fault that only takes time.
func (f *Fault) err() error {
	if f.Err == nil && f.Delay == 0 && !f.Block {
		return errdefs.ErrUnavailable
	}
	return f.Err
}

func (f *Fault) before(ctx context.Context) error {
	if f == nil {
		return nil
	}
	if f.Block {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f.AfterEffect {
		return nil
	}
	return f.err()
}

func (f *Fault) after() error {
	if f == nil || !f.AfterEffect {
		return nil
	}
	return f.err()
}
