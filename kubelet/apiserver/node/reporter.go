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

// Reporter keeps this machine a node of its cluster. Call Run once. All other methods are safe for concurrent use.
type Reporter struct {
	opts    Options
	machine machine
	nodes   corev1.NodeInterface
	wake    chan struct{}

	registered chan struct{}
	// gone is true while the API server does not have the node.
	gone atomic.Bool

	// turn has a value while a goroutine compares the status with the API server's. That goroutine owns the two fields
	// below.
	turn     chan struct{}
	images   imageList
	reported time.Time

	mu   sync.RWMutex
	node *v1.Node
}

// New reads the machine and calls the functions of opts except Images. The error names each wrong option. Nothing is
// sent before Run.
func New(opts Options) (*Reporter, error) { return newReporter(opts, thisMachine()) }

func newReporter(opts Options, m machine) (*Reporter, error) {
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	r := &Reporter{
		opts: opts, machine: m, wake: make(chan struct{}, 1), registered: make(chan struct{}),
		turn: make(chan struct{}, 1),
	}
	if opts.Clients != nil {
		r.nodes = opts.Clients.Core.Nodes()
	}
	r.node = r.initial()
	return r, nil
}

// Run registers the node and keeps its lease and status until ctx ends, and then returns nil. Without an API server it
// computes the status after each Wake.
func (r *Reporter) Run(ctx context.Context) error {
	if r.nodes == nil {
		r.runAlone(ctx)
		return nil
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

func (r *Reporter) runAlone(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
			r.refreshLocally()
		}
	}
}

// Registered is closed when the API server has the node. From then on pods can be admitted.
func (r *Reporter) Registered() <-chan struct{} { return r.registered }

// Node returns the API server's last known version of the node, with its wanted status. It must not be changed. Before
// the registration it has no images.
func (r *Reporter) Node() *v1.Node {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.node
}

// Exists reports whether the API server has the node. The result is false before the registration. It is also false
// after a status check that found the node deleted, until a later check finds a node again.
func (r *Reporter) Exists() bool {
	select {
	case <-r.registered:
		return !r.gone.Load()
	default:
		return false
	}
}

// Wake starts a check of the status, because a condition may have changed. It does not wait.
func (r *Reporter) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // a check is pending already
	}
}

// Refresh gets the node from the API server, for callers that need current labels and taints. It returns the cached
// node with the error if the API server is away.
func (r *Reporter) Refresh(ctx context.Context) (*v1.Node, error) {
	if r.nodes == nil {
		return r.Node(), errors.New("node: no API server is configured")
	}
	err := r.sync(ctx)
	return r.Node(), err
}

func (r *Reporter) keep(node *v1.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = node
}
