package migrate

import (
	"context"
	"errors"

	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/checkpoint"
)

// Engine is what is asked of Docker Engine; docker.Engine has it.
type Engine interface {
	InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error)
	ListContainers(ctx context.Context, labels map[string]string) ([]container.Summary, error)
}

// Options say where things are. Engine and Store are required.
type Options struct {
	Engine Engine
	Store  *checkpoint.Store
	// RootDirectories are those that cri-dockerd and dockershim may have used; new checkpoints go to the first.
	RootDirectories []string
	// CNICacheDirs are libcni's caches that they may have used; entries go back to the first. CNICacheDir is ours.
	CNICacheDirs []string
	CNICacheDir  string
	// netnsDir is where network namespaces are pinned, netns.DefaultDir when empty.
	netnsDir string
	// LogHistory is how much of a container's output from before is converted, in bytes.
	LogHistory int64
	// KeepLinks leaves logs that are links to the engine's files as they are (--container-log-mode=symlink).
	KeepLinks bool
	// DockerEndpoint is the engine's address: a cri-dockerd that drives the same one has to be stopped first.
	DockerEndpoint string
}

// Node is a node that changes hands. Its methods must not be called concurrently, but for Forget, which is safe at any
// time.
type Node struct {
	opts Options
}

// New makes it and touches nothing.
func New(opts Options) *Node { return &Node{opts: opts} }

// Adopt takes over what is in a list of the engine's containers and is not ours yet. It fails when a pod cannot be
// recorded (a disk is full, say): that pod must not be shown, because it would be without an address and its kubelet
// would replace it. While a cri-dockerd runs on this engine nothing is touched.
func (n *Node) Adopt(ctx context.Context, list []container.Summary) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "migrate"))
	plan, err := n.plan(ctx, list)
	if err != nil {
		return err
	}
	if len(plan.pods) == 0 {
		return nil
	}
	if pid := n.peer(); pid != 0 {
		log.G(ctx).WithFields(log.Fields{"pid": pid, "pods": len(plan.pods)}).
			Warn("leaving pods of a running cri-dockerd alone, stop it and start criadapter again to take them over")
		return nil
	}
	return n.apply(ctx, plan)
}

// Plan is what Adopt would do now.
func (n *Node) Plan(ctx context.Context) (*Plan, error) {
	list, err := n.list(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := n.plan(ctx, list)
	if err == nil {
		plan.peer = n.peer()
	}
	return plan, err
}

// Apply does what a plan says.
func (n *Node) Apply(ctx context.Context, plan *Plan) error {
	if plan.peer != 0 {
		return errPeer(plan.peer)
	}
	return n.apply(log.WithLogger(ctx, log.L.WithField("component", "migrate")), plan)
}

func (n *Node) apply(ctx context.Context, plan *Plan) error {
	var errs []error
	for _, pod := range plan.pods {
		errs = append(errs, n.adopt(ctx, pod))
	}
	return errors.Join(errs...)
}
