package cpumanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	"github.com/criadapter/criadapter/kubelet/grants"
	"github.com/criadapter/criadapter/kubelet/jsonfile"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Policy selects the CPUs of containers.
type Policy string

// The policies of KubeletConfiguration's cpuManagerPolicy.
const (
	// None leaves all CPUs to all containers.
	None Policy = "none"
	// Static gives exclusive CPUs to containers of guaranteed pods that request whole CPUs.
	Static Policy = "static"
)

// Runtime is the part of cri.Runtime for running containers.
type Runtime interface {
	Attempts(ctx context.Context) (map[types.UID]*model.PodStatus, error)
	ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error)
	UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error
}

// Options configure a Manager.
type Options struct {
	// Policy is the policy; empty means None.
	Policy Policy
	// Reserved are CPUs that never become exclusive. If it is empty, ReservedCount CPUs are chosen.
	Reserved      cpuset.CPUSet
	ReservedCount int
	// RootDir is the directory of the file with the grants.
	RootDir string
	Runtime Runtime
	// Finished says whether a pod's containers have ended, and its volumes and cgroup are removed. Other pods may then
	// get its CPUs.
	Finished func(types.UID) bool
}

// Manager assigns CPUs to containers. It is safe for concurrent use.
type Manager struct {
	opts     Options
	topology topology
	// all are the online CPUs. free are the online CPUs that are not reserved.
	all, free cpuset.CPUSet
	// path is the file of the grants. It is missing until a container gets exclusive CPUs. Run removes it after it has
	// given all CPUs back.
	path string
	// wake wakes Run.
	wake chan struct{}

	mu     sync.Mutex
	grants *grants.Grants[string]
}

// Open reads the machine's CPUs and the grants. Unreadable grants are an error: two containers might get the same CPU.
func Open(opts Options) (*Manager, error) { return open(opts, systemCPUs) }

func open(opts Options, system string) (*Manager, error) {
	m := &Manager{opts: opts, path: filepath.Join(opts.RootDir, "cpus.json"), wake: make(chan struct{}, 1)}
	var err error
	if m.grants, err = grants.Open[string](m.path); err != nil {
		return nil, fmt.Errorf("CPUs of containers: %w",
			jsonfile.Advise(m.path, err, "remove the file when no pod runs"))
	}
	if !m.static() {
		if _, err := os.Stat(m.path); errors.Is(err, fs.ErrNotExist) {
			return m, nil
		}
	}
	if m.topology, err = readTopology(system); err != nil {
		return nil, fmt.Errorf("CPUs: %w", err)
	}
	m.all = m.topology.cpus()
	if m.static() {
		err = m.reserve()
	}
	return m, err
}

func (m *Manager) static() bool { return m.opts.Policy == Static }

// reserve chooses the reserved CPUs.
func (m *Manager) reserve() error {
	reserved := m.opts.Reserved
	if reserved.IsEmpty() {
		reserved = m.topology.take(m.all, m.opts.ReservedCount)
	}
	switch {
	case reserved.IsEmpty():
		return fmt.Errorf("the CPU manager's policy %s needs CPUs for the system: give --system-reserved cpu=1, or "+
			"--reserved-cpus: %w", Static, errdefs.ErrInvalidArgument)
	case !reserved.IsSubsetOf(m.all):
		return fmt.Errorf("--reserved-cpus %s: the machine has %s: %w", reserved, m.all, errdefs.ErrInvalidArgument)
	}
	m.free = m.all.Difference(reserved)
	return nil
}

// Wake makes Run look at the running containers.
func (m *Manager) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Keep drops the grants of pods that do not exist. Without the policy Static, Keep does nothing: no grant counts, and a
// write could recreate the file that Run removes.
func (m *Manager) Keep(exists func(types.UID) bool) error {
	if !m.static() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped, err := m.grants.Keep(exists)
	if dropped {
		m.Wake() // the pool is larger
	}
	return err
}

// Exclusive says whether a container of the pod has exclusive CPUs. Such a pod cannot be resized in place, and its
// cgroup has no CPU quota.
func (m *Manager) Exclusive(pod *v1.Pod) (found bool) {
	model.EachContainer(&pod.Spec, func(c *v1.Container, _ model.Kind) { found = found || m.wholeCPUs(pod, c) > 0 })
	return found
}

// wholeCPUs returns how many exclusive CPUs the container gets.
func (m *Manager) wholeCPUs(pod *v1.Pod, c *v1.Container) int {
	cpu := c.Resources.Requests.Cpu()
	if !m.static() || model.QOS(pod) != v1.PodQOSGuaranteed || pod.Spec.Resources != nil || cpu.MilliValue()%1000 != 0 {
		return 0
	}
	return int(cpu.Value())
}

// Apply sets the CPUs in a container's configuration. A container with exclusive CPUs gets no CPU quota: its CPUs are
// the limit, and a quota would only pause it. If too few CPUs are free, the error names the resource. Apply may be
// repeated after any error.
func (m *Manager) Apply(pod *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error {
	if !m.static() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cpus, err := m.choose(pod, c)
	if err != nil {
		return err
	}
	resources := config.GetLinux().GetResources()
	resources.CpusetCpus = cpus.String()
	if m.wholeCPUs(pod, c) > 0 {
		resources.CpuQuota = 0
	}
	return nil
}

// choose returns the CPUs of a container: its own or the pool. It prefers CPUs of the pod's init containers, because an
// init container ends before the next container starts.
func (m *Manager) choose(pod *v1.Pod, c *v1.Container) (cpuset.CPUSet, error) {
	n := m.wholeCPUs(pod, c)
	if n == 0 {
		return m.pool(), nil
	}
	if has := m.granted(pod.UID, c.Name); has.Size() == n {
		return has, nil
	}
	taken, shared := m.grants.Others(pod, c.Name, m.opts.Finished)
	left := m.free.Difference(union(taken))
	reusable := union(shared).Intersection(left)
	chosen := m.topology.take(reusable, n)
	chosen = chosen.Union(m.topology.take(left.Difference(chosen), n-chosen.Size()))
	if chosen.Size() < n {
		return chosen, fmt.Errorf("resources.requests[cpu]: %d exclusive CPUs are requested, and %d are free: %w",
			n, left.Size(), errdefs.ErrResourceExhausted)
	}
	defer m.Wake() // the pool is smaller
	return chosen, m.grants.Set(pod.UID, c.Name, chosen.String())
}

// pool returns the CPUs that are exclusive to no container. Without the policy Static these are all CPUs.
func (m *Manager) pool() cpuset.CPUSet {
	taken, _ := m.grants.Others(&v1.Pod{}, "", m.opts.Finished)
	return m.all.Difference(union(taken).Intersection(m.free))
}

// granted returns a container's exclusive CPUs. It returns none if a granted CPU became reserved or went offline.
func (m *Manager) granted(uid types.UID, container string) cpuset.CPUSet {
	text, _ := m.grants.Get(uid, container)
	if has := parse(text); has.IsSubsetOf(m.free) {
		return has
	}
	return cpuset.New()
}

// union returns the CPUs of several grants.
func union(texts []string) cpuset.CPUSet {
	all := cpuset.New()
	for _, text := range texts {
		all = all.Union(parse(text))
	}
	return all
}

// parse reads a grant. An invalid grant counts as empty. Its container then gets other CPUs.
func parse(text string) cpuset.CPUSet {
	cpus, err := cpuset.Parse(text)
	if err != nil {
		return cpuset.New()
	}
	return cpus
}
