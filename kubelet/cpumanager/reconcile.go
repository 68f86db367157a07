package cpumanager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/containerd/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	"github.com/criadapter/criadapter/kubelet/model"
)

// retryAfter is the pause after an error.
const retryAfter = 10 * time.Second

// Run gives running containers their CPUs at its start and after each Wake, until ctx ends. Without the policy Static,
// Run gives all CPUs back to the containers that an earlier process bound, and returns.
func (m *Manager) Run(ctx context.Context) error {
	if m.all.IsEmpty() {
		return nil
	}
	applied := map[string]cpuset.CPUSet{}
	for ctx.Err() == nil {
		var retry <-chan time.Time
		if err := m.reconcile(ctx, applied); err != nil {
			log.G(ctx).WithError(err).Warn("containers could not be bound to CPUs, retrying")
			retry = time.After(retryAfter)
		} else if !m.static() {
			return os.Remove(m.path)
		}
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-retry:
		}
	}
	return nil
}

// reconcile gives each running container its CPUs. applied has, by container id, the CPUs that this process has seen or
// set.
func (m *Manager) reconcile(ctx context.Context, applied map[string]cpuset.CPUSet) error {
	pods, err := m.opts.Runtime.Attempts(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	pool := m.pool() // a change of the pool after this line wakes Run again
	m.mu.Unlock()
	var errs []error
	runs := map[string]bool{}
	for uid, pod := range pods {
		for _, c := range pod.Containers {
			if c.State != model.StateRunning {
				continue
			}
			runs[c.ID] = true
			want := m.wanted(uid, c.Name, pool)
			if has, known := applied[c.ID]; known && has.Equals(want) {
				continue
			}
			if err := m.bind(ctx, c.ID, want); err != nil {
				errs = append(errs, fmt.Errorf("container %s: %w", c.ID, err))
				continue
			}
			applied[c.ID] = want
		}
	}
	maps.DeleteFunc(applied, func(id string, _ cpuset.CPUSet) bool { return !runs[id] })
	return errors.Join(errs...)
}

// wanted returns the CPUs of a container: its own, or the pool.
func (m *Manager) wanted(uid types.UID, container string, pool cpuset.CPUSet) cpuset.CPUSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	if has := m.granted(uid, container); !has.IsEmpty() {
		return has
	}
	return pool
}

// bind binds a container to CPUs. A container that is gone is no error.
func (m *Manager) bind(ctx context.Context, id string, want cpuset.CPUSet) error {
	answer, err := m.opts.Runtime.ContainerStatus(ctx, id, false)
	if status.Code(err) == codes.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	runs := answer.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
	has := answer.GetStatus().GetResources().GetLinux().GetCpusetCpus()
	if !runs || has != "" && parse(has).Equals(want) {
		return nil
	}
	log.G(ctx).WithFields(log.Fields{"containerID": id, "cpus": want.String()}).Debug("binding container to CPUs")
	return m.opts.Runtime.UpdateContainerResources(ctx, id, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{CpusetCpus: want.String()}})
}
