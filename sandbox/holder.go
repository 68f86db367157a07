package sandbox

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/state"
)

// A holder keeps the namespaces of pods alive. Only holders know how. A pod keeps the holder that it gets when it is
// made. The pod's record shows which holder that is.
type holder interface {
	// repair restores the parts of a running pod's namespaces that a crash or a clean-up removed. It is quick.
	repair(ctx context.Context, pod *state.Pod, record checkpoint.Record) error
	// stop releases the namespaces except the pinned network namespace, and updates the pod in the cache. It is
	// idempotent.
	stop(ctx context.Context, id string) error
	// remove removes what stop leaves. For a pod that is not in the cache it also does the work of stop. It is
	// idempotent.
	remove(ctx context.Context, id string) error
}

// holderSetUp makes the namespaces of one pod. An implementation also keeps its holder's state of the set-up.
type holderSetUp interface {
	// create makes the pod's id. After an error it leaves nothing behind.
	create(ctx context.Context, p *pending) (id string, err error)
	// start makes the namespaces. It writes the intent to disk before CNI ADD.
	start(ctx context.Context, p *pending) error
	// connect joins a pod with a network of its own and records the result.
	connect(ctx context.Context, p *pending) error
	// abandon registers the undo of start's unfinished work. connect takes over what it finishes.
	abandon(p *pending)
	// entry returns the cache's entry for a pod that was set up.
	entry(ctx context.Context, p *pending) state.Pod
	// remove is the remove of the pod's holder.
	remove(ctx context.Context, id string) error
}

// pending is a pod while it is being set up.
type pending struct {
	name   string
	record checkpoint.Record
	config *runtimeapi.PodSandboxConfig
	undo   undoStack
	// rollBackFailed says that parts of the pod are left, because an undo failed.
	rollBackFailed bool
	// namespaces makes the pod's namespaces.
	namespaces holderSetUp
	// cgroup is the pod's cgroup as the engine names it.
	cgroup checkpoint.Cgroup
}

// exists is the error for a pod whose name is taken by another pod.
func exists(name, id string) error {
	return fmt.Errorf("pod sandbox %s exists with id %s, remove it first or use a higher attempt: %w", name, id,
		errdefs.ErrAlreadyExists)
}
