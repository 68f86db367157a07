package node

import (
	"context"
	"errors"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// lease is the node's lease in the namespace kube-node-lease. Only one goroutine uses it.
type lease struct {
	leases  coordinationv1.LeaseInterface
	node    func() *v1.Node
	gone    func() bool
	seconds int32
	// last is the server's last known version of the lease, or nil.
	last *coordination.Lease
}

func newLease(r *Reporter) *lease {
	return &lease{
		leases: r.opts.Clients.Coordination.Leases(v1.NamespaceNodeLease), node: r.Node, gone: r.gone.Load,
		seconds: r.opts.leaseSeconds,
	}
}

// period returns the time between two renewals. It is a quarter of the duration, so three renewals in a row may fail.
func (l *lease) period() time.Duration { return time.Duration(l.seconds) * time.Second / 4 }

// renew updates the lease, or creates it if it is missing. The cached lease saves a request. If the lease was changed
// or deleted by another client, renew reads it again.
func (l *lease) renew(ctx context.Context) error {
	var err error
	for range 3 {
		if err = l.tryRenew(ctx); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) &&
			!apierrors.IsAlreadyExists(err) {
			return err
		}
		l.last = nil
	}
	return err
}

func (l *lease) tryRenew(ctx context.Context) error {
	if l.last == nil {
		current, err := l.leases.Get(ctx, l.node().Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return l.create(ctx)
		}
		if err != nil {
			return err
		}
		l.last = current
	}
	next := l.last.DeepCopy()
	l.fill(next)
	got, err := l.leases.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	l.last = got
	return nil
}

// create creates the lease with the node as its owner. It fails if the node was deleted. A lease without an owner would
// never be collected, and a lease of a deleted owner would be collected at once.
func (l *lease) create(ctx context.Context) error {
	if l.gone() {
		return errors.New("the node was deleted")
	}
	next := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.node().Name, Namespace: v1.NamespaceNodeLease}}
	l.fill(next)
	got, err := l.leases.Create(ctx, next, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	l.last = got
	return nil
}

func (l *lease) fill(next *coordination.Lease) {
	node, now := l.node(), metav1.NowMicro()
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = &node.Name, &l.seconds, &now
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	if !slices.Contains(next.OwnerReferences, owner) {
		next.OwnerReferences = []metav1.OwnerReference{owner}
	}
}
