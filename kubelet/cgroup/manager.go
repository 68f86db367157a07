package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Driver is a cgroup driver. The kubelet and the runtime must use the same one.
type Driver string

// The drivers of CRI's RuntimeConfig.
const (
	// Cgroupfs writes the kernel's files.
	Cgroupfs Driver = "cgroupfs"
	// Systemd makes cgroups through systemd, which owns the tree.
	Systemd Driver = "systemd"
)

// Options configure a Manager.
type Options struct {
	// Driver is the runtime's driver, Cgroupfs or Systemd. Any other value leaves all cgroups to the runtime.
	Driver Driver
	// Root is the parent of the pods' cgroups, as a path. Empty means the root cgroup. Two kubelets on one machine need
	// different roots: each removes the cgroups of pods that it does not know.
	Root string
	// Allocatable is for all pods together: memory is a limit, CPUs are a weight. Missing amounts are not limited
	// (NodeAllocatableRoot and getNodeAllocatableInternalAbsolute of pkg/kubelet/cm).
	Allocatable v1.ResourceList
	// PodPids is the limit of processes and threads of a pod; 0 means no limit.
	PodPids int64
	// Unthrottled reports whether a pod's cgroup gets no CPU quota, because one of its containers has exclusive CPUs.
	// Nil means never.
	Unthrottled func(pod *v1.Pod) bool
	// Measure is called after each create, update or destroy of a cgroup, with the time when the operation began. Nil
	// means none.
	Measure func(operation string, began time.Time)
}

// limits are the limits of one cgroup. Zero values set nothing.
type limits struct {
	// shares and quota are from Shares and Quota. memory is in bytes, pids a number of tasks. All but shares may be
	// noLimit.
	shares, quota, memory, pids int64
}

// noLimit removes a limit that was set before a resize, or by an earlier process.
const noLimit = -1

// tree makes and removes cgroups with one driver.
type tree interface {
	// ensure makes the cgroup and its ancestors, and sets its limits. It may be repeated.
	ensure(ctx context.Context, n name, l limits) error
	// has reports whether the cgroup exists.
	has(n name) bool
	// remove kills the cgroup's processes and removes it. A missing cgroup is not an error.
	remove(ctx context.Context, n name) error
	// children returns the elements directly below the cgroup. A missing cgroup has none.
	children(n name) ([]string, error)
	// prune removes the cgroup if it is empty.
	prune(ctx context.Context, n name) error
	// spell returns the name in the driver's format.
	spell(n name) string
	// close closes open connections.
	close()
}

// Manager makes and removes the cgroups of pods. It is safe for concurrent use.
type Manager struct {
	opts Options
	top  name
	tree tree // nil if cgroups are left to the runtime

	mu sync.Mutex
	// requests are the CPU requests of burstable pods, in millicores.
	requests map[types.UID]int64

	writtenMu sync.Mutex
	// written are the limits that this process last wrote, by the cgroup's name.
	written map[string]limits
}

// New makes the cgroups of the QoS classes. If New cannot write cgroups, it logs the error. The returned manager then
// does nothing: pods run in cgroups that the runtime alone makes.
func New(ctx context.Context, opts Options) *Manager {
	if opts.Unthrottled == nil {
		opts.Unthrottled = func(*v1.Pod) bool { return false }
	}
	if opts.Measure == nil {
		opts.Measure = func(string, time.Time) {}
	}
	m := &Manager{opts: opts,
		top:      name(strings.FieldsFunc(path.Join(opts.Root, "kubepods"), func(r rune) bool { return r == '/' })),
		requests: map[types.UID]int64{}, written: map[string]limits{}}
	tree, err := newTree(ctx, opts.Driver)
	if err == nil {
		m.tree = tree
		err = m.ensureClasses(ctx)
	}
	if err != nil {
		m.Close()
		m.tree = nil
		log.G(ctx).WithError(err).WithField("driver", opts.Driver).
			Info("cgroups cannot be written, pods have only the runtime's cgroups")
	}
	return m
}

func newTree(ctx context.Context, driver Driver) (tree, error) {
	switch driver {
	case Cgroupfs:
		return newFiles(defaultMount)
	case Systemd:
		return newSlices(ctx, defaultMount)
	default:
		return nil, fmt.Errorf("the runtime's cgroup driver %q is not supported: %w", driver,
			errdefs.ErrNotImplemented)
	}
}

// Ensure makes the pod's cgroup, and returns its name for LinuxPodSandboxConfig.CgroupParent. An empty name leaves the
// cgroup to the runtime.
func (m *Manager) Ensure(ctx context.Context, pod *v1.Pod) (parent string, err error) {
	if m.tree == nil {
		return "", nil
	}
	if err := element(pod.UID); err != nil {
		return "", err
	}
	needs := model.PodResources(pod)
	if model.QOS(pod) == v1.PodQOSBurstable {
		if err := m.ensureRequest(ctx, pod.UID, needs.Requests.Cpu().MilliValue()); err != nil {
			return "", err
		}
	}
	l := limits{
		shares: Shares(needs.Requests.Cpu().MilliValue()),
		quota:  cmp.Or(Quota(needs.Limits.Cpu().MilliValue()), noLimit),
		memory: cmp.Or(needs.Limits.Memory().Value(), noLimit),
		pids:   cmp.Or(m.opts.PodPids, noLimit),
	}
	if m.opts.Unthrottled(pod) {
		l.quota = noLimit
	}
	if err := m.ensure(ctx, m.podName(pod), l); err != nil {
		return "", fmt.Errorf("cgroup of pod %s: %w", pod.UID, err)
	}
	return m.Parent(pod), nil
}

// ensure makes a cgroup unless it exists with these limits. Each sync of a pod calls it.
func (m *Manager) ensure(ctx context.Context, n name, l limits) error {
	key := n.cgroupfs()
	m.writtenMu.Lock()
	last, known := m.written[key]
	delete(m.written, key)
	m.writtenMu.Unlock()
	exists := m.tree.has(n)
	if !known || last != l || !exists {
		operation := "create"
		if exists {
			operation = "update"
		}
		began := time.Now()
		err := m.tree.ensure(ctx, n, l)
		m.opts.Measure(operation, began)
		if err != nil {
			return err
		}
	}
	m.writtenMu.Lock()
	m.written[key] = l
	m.writtenMu.Unlock()
	return nil
}

// remove removes a cgroup, and measures the removal of an existing one.
func (m *Manager) remove(ctx context.Context, n name) error {
	m.writtenMu.Lock()
	delete(m.written, n.cgroupfs())
	m.writtenMu.Unlock()
	if m.tree.has(n) {
		defer m.opts.Measure("destroy", time.Now())
	}
	return m.tree.remove(ctx, n)
}

// Close closes the connection to systemd, if there is one. No other call may follow it.
func (m *Manager) Close() {
	if m.tree != nil {
		m.tree.close()
	}
}

// Parent returns the name that Ensure returns, without making the cgroup.
func (m *Manager) Parent(pod *v1.Pod) string {
	if m.tree == nil {
		return ""
	}
	return m.tree.spell(m.podName(pod))
}

// ensureRequest adds a burstable pod's CPU request to the weight of its class, if the request has changed.
func (m *Manager) ensureRequest(ctx context.Context, uid types.UID, milli int64) error {
	m.mu.Lock()
	before, known := m.requests[uid]
	m.requests[uid] = milli
	m.mu.Unlock()
	if known && before == milli {
		return nil
	}
	err := m.ensureClasses(ctx)
	if err != nil {
		m.mu.Lock()
		delete(m.requests, uid) // the next call tries again
		m.mu.Unlock()
	}
	return err
}

// ensureClasses makes the cgroups of the QoS classes and updates their weights. The weight of the burstable class stays
// until Ensure has been called for each pod that has a cgroup in the class. A weight without the pods of an earlier
// process would starve these pods.
func (m *Manager) ensureClasses(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	classes := m.classes()
	uids, err := m.podsOf(classes[1])
	if err != nil {
		return err
	}
	var burstable limits
	if !slices.ContainsFunc(uids, m.unknown) {
		var sum int64
		for _, milli := range m.requests {
			sum += milli
		}
		burstable.shares = Shares(sum)
	}
	for i, l := range []limits{m.all(), burstable, {shares: minShares}} {
		if err := m.ensure(ctx, classes[i], l); err != nil {
			return fmt.Errorf("cgroup of a QoS class: %w", err)
		}
	}
	return nil
}

func (m *Manager) all() limits {
	l := limits{memory: m.opts.Allocatable.Memory().Value()}
	if cpu := m.opts.Allocatable.Cpu(); !cpu.IsZero() {
		l.shares = Shares(cpu.MilliValue())
	}
	return l
}

// Remove removes the pod's cgroup and kills its processes. A missing cgroup is not an error.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if m.tree == nil || element(uid) != nil { // Ensure makes no cgroup for an invalid UID
		return nil
	}
	uids, err := m.podsOf(m.classes()[1])
	m.mu.Lock()
	_, burstable := m.requests[uid]
	delete(m.requests, uid)
	m.mu.Unlock()
	burstable = burstable || slices.Contains(uids, uid) // an earlier process made the cgroup
	errs := []error{err}
	for _, class := range m.classes() {
		if err := m.remove(ctx, class.child(podElement(uid))); err != nil {
			errs = append(errs, fmt.Errorf("remove the cgroup of pod %s: %w", uid, err))
		}
	}
	if burstable {
		errs = append(errs, m.ensureClasses(ctx))
	}
	return errors.Join(errs...)
}

// RemoveAll removes the cgroups of all pods, and Options.Root if it is empty then. The manager must not be used
// afterwards.
func (m *Manager) RemoveAll(ctx context.Context) error {
	if m.tree == nil {
		return nil
	}
	if err := m.tree.remove(ctx, m.top); err != nil || len(m.top) < 2 {
		return err
	}
	return m.tree.prune(ctx, m.top[:len(m.top)-1])
}

// element refuses UIDs that lead to other cgroups. It also refuses underscores: the name of a slice has underscores
// instead of dashes, so two UIDs could have one name.
func element(uid types.UID) error {
	if text := string(uid); text == "" || strings.ContainsAny(text, "/_\x00") {
		return fmt.Errorf("metadata.uid: %q cannot be part of a cgroup's name: %w", uid, errdefs.ErrInvalidArgument)
	}
	return nil
}

// Pods lists the pods that have a cgroup.
func (m *Manager) Pods() ([]types.UID, error) {
	if m.tree == nil {
		return nil, nil
	}
	var uids []types.UID
	for _, class := range m.classes() {
		found, err := m.podsOf(class)
		if err != nil {
			return nil, err
		}
		uids = append(uids, found...)
	}
	return uids, nil
}

// podsOf lists the pods that have a cgroup in a QoS class. It leaves out cgroups that Ensure never makes.
func (m *Manager) podsOf(class name) ([]types.UID, error) {
	children, err := m.tree.children(class)
	if err != nil {
		return nil, err
	}
	var uids []types.UID
	for _, child := range children {
		if uid, ok := strings.CutPrefix(child, podPrefix); ok && element(types.UID(uid)) == nil {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids, nil
}

// unknown reports whether Ensure has not yet been called for a burstable pod. The caller holds mu.
func (m *Manager) unknown(uid types.UID) bool {
	_, ok := m.requests[uid]
	return !ok
}
