package sandbox

import (
	"context"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/state"
)

// A holder keeps the namespaces of pods alive. Nobody but the holders knows what that takes. Which one a pod has is
// decided when it is made, and in its record.
type holder interface {
	// create makes the pod's id. With an error nothing is left.
	create(ctx context.Context, p *pending) (id string, err error)
	// start makes the namespaces. The intent is on disk before anything is held for the pod in the network.
	start(ctx context.Context, p *pending) error
	// connect joins a pod with a network of its own and records the result.
	connect(ctx context.Context, p *pending) error
	// abandon pushes what undoes that which start has begun and connect has not taken over.
	abandon(p *pending)
	// entry is what the cache shows of a pod that was set up.
	entry(ctx context.Context, p *pending) state.Pod
	// repair gives a running pod back what a crash or a clean-up took from its namespaces. It is quick.
	repair(ctx context.Context, pod *state.Pod, record checkpoint.Record) error
	// stop lets the namespaces go, but for the pinned network namespace, and has the cache show it. It is idempotent.
	stop(ctx context.Context, id string) error
	// remove removes what is left after stop, and does what stop does for a pod that nobody has seen. It is idempotent.
	remove(ctx context.Context, id string) error
}

// holderOf is the holder of a pod that was made before.
func (s *Service) holderOf(checkpoint.Record) holder { return containerHolder{s} }
