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

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Driver is who makes cgroups for the runtime; both must agree.
type Driver string

// The drivers that CRI's RuntimeConfig knows.
const (
	// Cgroupfs is the kernel's files themselves.
	Cgroupfs Driver = "cgroupfs"
	// Systemd is the init system, which owns the tree and must be asked.
	Systemd Driver = "systemd"
)

// Options configure a Manager.
type Options struct {
	// Driver is the runtime's. Anything but the two known ones leaves all cgroups to the runtime.
	Driver Driver
	// Root is the cgroup below which ours are, as a path. Empty means the root of all. A kubelet that shares the
	// machine with another one needs its own: each removes the cgroups of pods that it does not know.
	Root string
	// Allocatable is what all pods together may have: memory is a limit, processors are a weight. What it lacks is not
	// limited (NodeAllocatableRoot and getNodeAllocatableInternalAbsolute of pkg/kubelet/cm).
	Allocatable v1.ResourceList
	// PodPids is how many processes and threads a pod may have; 0 for no limit.
	PodPids int64
}

// limits of one cgroup. Zero values set nothing.
type limits struct {
	// shares and quota are as Shares and Quota make them, memory is in bytes, pids is a number of tasks. All but shares
	// may be noLimit.
	shares, quota, memory, pids int64
}

// noLimit takes away the limit that there was, before a resize or of an earlier process.
const noLimit = -1

// tree makes and removes cgroups, for one driver.
type tree interface {
	// ensure makes the cgroup and its ancestors and sets its limits. It may be repeated.
	ensure(ctx context.Context, n name, l limits) error
	// has says whether the cgroup exists.
	has(n name) bool
	// remove kills what is in the cgroup and removes it. One that does not exist is no error.
	remove(ctx context.Context, n name) error
	// children are the elements right below the cgroup, whether it exists or not.
	children(n name) ([]string, error)
	// prune removes the cgroup if nothing is in it.
	prune(ctx context.Context, n name) error
	// spell is the name in the driver's way.
	spell(n name) string
	// close ends what the tree holds open.
	close()
}

// Manager makes and removes the cgroups of pods. It is safe for concurrent use.
type Manager struct {
	opts Options
	top  name
	tree tree // nil when cgroups are the runtime's business

	mu sync.Mutex
	// requests are the thousandths of processors that the burstable pods ask for.
	requests map[types.UID]int64

	writtenMu sync.Mutex
	// written are the limits that this process wrote last, by the cgroup's name.
	written map[string]limits
}

// New makes the trees of the classes. If that fails, the machine's cgroups cannot be written: it is logged, and
// the manager does nothing, so that pods run all the same.
func New(ctx context.Context, opts Options) *Manager {
	m := &Manager{opts: opts, top: name(strings.FieldsFunc(path.Join(opts.Root, "kubepods"), func(r rune) bool { return r == '/' })), requests: map[types.UID]int64{}, written: map[string]limits{}}
	tree, err := newTree(ctx, opts.Driver)
	if err == nil {
		m.tree = tree
		err = m.ensureClasses(ctx)
	}
	if err != nil {
		m.Close()
		m.tree = nil
		log.G(ctx).WithError(err).WithField("driver", opts.Driver).Info("pods have no cgroups of their own: cgroups are left to the runtime")
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
		return nil, fmt.Errorf("the runtime's cgroup driver %q is not known here: %w", driver, errdefs.ErrNotImplemented)
	}
}

// Ensure makes the pod's cgroup and returns its name for LinuxPodSandboxConfig.CgroupParent; empty leaves it to the
// runtime.
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
	err = m.ensure(ctx, m.podName(pod), limits{
		shares: Shares(needs.Requests.Cpu().MilliValue()),
		quota:  cmp.Or(Quota(needs.Limits.Cpu().MilliValue()), noLimit),
		memory: cmp.Or(needs.Limits.Memory().Value(), noLimit),
		pids:   cmp.Or(m.opts.PodPids, noLimit),
	})
	if err != nil {
		return "", fmt.Errorf("cgroup of pod %s: %w", pod.UID, err)
	}
	return m.Parent(pod), nil
}

// ensure has the tree make a cgroup, unless it exists with these limits: each sync of a pod comes by here.
func (m *Manager) ensure(ctx context.Context, n name, l limits) error {
	key := n.cgroupfs()
	m.writtenMu.Lock()
	last, known := m.written[key]
	delete(m.written, key)
	m.writtenMu.Unlock()
	if !known || last != l || !m.tree.has(n) {
		if err := m.tree.ensure(ctx, n, l); err != nil {
			return err
		}
	}
	m.writtenMu.Lock()
	m.written[key] = l
	m.writtenMu.Unlock()
	return nil
}

// remove removes a cgroup.
func (m *Manager) remove(ctx context.Context, n name) error {
	m.writtenMu.Lock()
	delete(m.written, n.cgroupfs())
	m.writtenMu.Unlock()
	return m.tree.remove(ctx, n)
}

// Close ends the connection to systemd, if there is one. It is called when no pod is worked on any more.
func (m *Manager) Close() {
	if m.tree != nil {
		m.tree.close()
	}
}

// Parent is what Ensure returns, without making anything.
func (m *Manager) Parent(pod *v1.Pod) string {
	if m.tree == nil {
		return ""
	}
	return m.tree.spell(m.podName(pod))
}

// ensureRequest counts what a burstable pod asks for in the weight of its class. It costs nothing when that is as
// before.
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
		delete(m.requests, uid) // so that the next try writes it
		m.mu.Unlock()
	}
	return err
}

// ensureClasses makes the trees of the classes and brings their weights up to date. While burstable pods of an earlier
// process have cgroups and have not been asked for yet, their class keeps the weight that it has: it would starve them.
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
			return fmt.Errorf("cgroup of a class of pods: %w", err)
		}
	}
	return nil
}

// all are the limits of all pods together.
func (m *Manager) all() limits {
	l := limits{memory: m.opts.Allocatable.Memory().Value()}
	if cpu := m.opts.Allocatable.Cpu(); !cpu.IsZero() {
		l.shares = Shares(cpu.MilliValue())
	}
	return l
}

// Remove removes the pod's cgroup, and kills what should still be in it. A pod without one is no error.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	if m.tree == nil {
		return nil
	}
	if err := element(uid); err != nil {
		return err
	}
	uids, err := m.podsOf(m.classes()[1])
	m.mu.Lock()
	_, burstable := m.requests[uid]
	delete(m.requests, uid)
	m.mu.Unlock()
	burstable = burstable || slices.Contains(uids, uid) // an earlier process made it
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

// RemoveAll removes the cgroups of all pods, and Options.Root if nothing else is in it. The manager is of no use after
// it.
func (m *Manager) RemoveAll(ctx context.Context) error {
	if m.tree == nil {
		return nil
	}
	if err := m.tree.remove(ctx, m.top); err != nil || len(m.top) < 2 {
		return err
	}
	return m.tree.prune(ctx, m.top[:len(m.top)-1])
}

// element refuses UIDs that would lead to other cgroups, or whose names would be those of another UID at systemd, which
// has underscores for dashes.
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

// podsOf lists the pods that have a cgroup in a class.
func (m *Manager) podsOf(class name) ([]types.UID, error) {
	children, err := m.tree.children(class)
	if err != nil {
		return nil, err
	}
	var uids []types.UID
	for _, child := range children {
		if uid, ok := strings.CutPrefix(child, podPrefix); ok {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids, nil
}

// unknown says that nobody has asked for a burstable pod's cgroup yet. The caller holds mu.
func (m *Manager) unknown(uid types.UID) bool {
	_, ok := m.requests[uid]
	return !ok
}
