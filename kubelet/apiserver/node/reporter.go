package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Reporter keeps this machine a node. Make one with New and call Run once; all other methods are safe for concurrent use.
type Reporter struct {
	opts    Options
	machine machine
	nodes   corev1.NodeInterface
	wake    chan struct{}

	registered chan struct{}
	// gone is set while the API server says that there is no such node.
	gone atomic.Bool

	// turn is held by whoever compares the status with the server's; what follows belongs to the holder.
	turn      chan struct{}
	images    imageList
	pidsShort time.Time // when they were short last
	reported  time.Time

	mu   sync.RWMutex
	node *v1.Node
}

// New looks at the machine, and asks the functions of the options but Images. The error names each option that is
// wrong. Nothing is sent before Run.
func New(opts Options) (*Reporter, error) { return newReporter(opts, thisMachine()) }

func newReporter(opts Options, m machine) (*Reporter, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	r := &Reporter{
		opts: opts, machine: m, wake: make(chan struct{}, 1), registered: make(chan struct{}), turn: make(chan struct{}, 1),
	}
	if opts.Clients != nil {
		r.nodes = opts.Clients.Core.Nodes()
	}
	r.node = r.initial()
	return r, nil
}

// Run registers the node and keeps its lease and status until ctx ends, and returns nil then.
func (r *Reporter) Run(ctx context.Context) error {
	if r.nodes == nil {
		return errors.New("node: there is no API server to register with")
	}
	if !repeat(ctx, repetition{what: "node not registered", step: r.register, once: true}) {
		return nil
	}
	close(r.registered)
	var parts sync.WaitGroup
	lease := newLease(r)
	parts.Go(func() {
		repeat(ctx, repetition{what: "node lease not renewed", step: lease.renew, period: lease.period()})
	})
	repeat(ctx, repetition{what: "node status not reported", step: r.sync, period: r.opts.StatusEvery, wake: r.wake})
	parts.Wait()
	return nil
}

// Registered is closed when the API server has the node. Pods that it binds can be admitted from then on.
func (r *Reporter) Registered() <-chan struct{} { return r.registered }

// Node is the node as the server had it last, with the status that it is to have. It must not be changed. Before the
// node is registered it is what it will be registered with, without images.
func (r *Reporter) Node() *v1.Node {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.node
}

// Exists says whether the API server has the node: it was registered, and was not found deleted since.
func (r *Reporter) Exists() bool {
	select {
	case <-r.registered:
		return !r.gone.Load()
	default:
		return false
	}
}

// Wake has the status looked at now: a condition may have changed. It does not wait.
func (r *Reporter) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // somebody woke it already
	}
}

// Refresh fetches the node, for who cannot do with labels or taints that may be some seconds old. When the API server
// is away it returns what is known, too.
func (r *Reporter) Refresh(ctx context.Context) (*v1.Node, error) {
	if r.nodes == nil {
		return r.Node(), errors.New("node: there is no API server to ask")
	}
	err := r.sync(ctx)
	return r.Node(), err
}

func (r *Reporter) keep(node *v1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = node
}
