package migrate

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
)

// maxAdoptions is the number of pods that are taken over concurrently.
const maxAdoptions = 8

// Engine is the part of docker.Engine that the package uses.
type Engine interface {
	Features(ctx context.Context) (docker.Features, error)
	InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error)
	ListContainers(ctx context.Context, labels map[string]string) ([]container.Summary, error)
}

// Options are the paths and settings. Engine and Store are required.
type Options struct {
	Engine Engine
	Store  *checkpoint.Store
	// RootDirectories are directories that cri-dockerd and dockershim may have used as root. New checkpoints go to the
	// first one, and to OwnRoot if it has checkpoints. OwnRoot is criadapter's root directory, empty for none.
	RootDirectories []string
	OwnRoot         string
	// CNICacheDirs are libcni's caches that cri-dockerd and dockershim may have used. Entries go back to the first one.
	// CNICacheDir is our cache.
	CNICacheDirs []string
	CNICacheDir  string
	// netnsDir is the directory of pinned network namespaces, netns.DefaultDir if empty.
	netnsDir string
	// LogHistory is the size of a container's old output that is converted, in bytes.
	LogHistory int64
	// KeepLinks keeps logs that are links to the engine's files (--container-log-mode=symlink).
	KeepLinks bool
	// DockerEndpoint is the engine's address. A cri-dockerd on the same engine must be stopped first.
	DockerEndpoint string
	// innerShims are the names of shims within other programs, by their sockets. Nil stands for innerShims().
	innerShims map[string]string
}

// Node is a node to migrate. Its methods must not be called concurrently, except Forget, which is safe at any time.
type Node struct {
	opts Options
}

// New returns a Node and changes nothing.
func New(opts Options) *Node {
	if opts.innerShims == nil {
		opts.innerShims = innerShims()
	}
	return &Node{opts: opts}
}

// Adopt takes over the foreign pods in a list of the engine's containers. It fails if a record cannot be saved, for
// example on a full disk: the kubelet would replace a pod that is shown without its address. It only logs a pod that
// the engine cannot describe, or whose log directory is gone. While a cri-dockerd runs on this engine, Adopt changes
// nothing, and fails if a running pod has no record.
func (n *Node) Adopt(ctx context.Context, list []container.Summary) error {
	ctx = log.WithLogger(ctx, log.L.WithField("component", "migrate"))
	ids, err := n.unmigrated(ctx, list)
	if err != nil || len(ids) == 0 {
		return err
	}
	if peer := n.peer(); peer != (shim{}) {
		if n.unrecorded(ctx, list) {
			return fmt.Errorf("pods of cri-dockerd would have no addresses: %w", errPeer(peer))
		}
		log.G(ctx).WithFields(log.Fields{"shim": peer.name, "pid": peer.pid, "pods": len(ids)}).
			Warn("leaving pods of a running cri-dockerd alone, stop it and start criadapter again to take them over")
		return nil
	}
	plan, err := n.plan(ctx, ids)
	if err != nil {
		return err
	}
	for _, pod := range plan.left {
		log.G(ctx).WithError(pod.err).WithField("podSandboxID", pod.id).Warn("cannot take over pod of cri-dockerd")
	}
	return n.apply(ctx, plan)
}

// Plan returns what Adopt would do now.
func (n *Node) Plan(ctx context.Context) (*Plan, error) {
	list, err := n.list(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := n.unmigrated(ctx, list)
	if err != nil {
		return nil, err
	}
	plan, err := n.plan(ctx, ids)
	if err == nil {
		plan.peer = n.peer()
	}
	return plan, err
}

// Apply executes a plan. It fails for the pods that the plan leaves out, after it has taken over the others.
func (n *Node) Apply(ctx context.Context, plan *Plan) error {
	if plan.peer != (shim{}) {
		return errPeer(plan.peer)
	}
	err := n.apply(log.WithLogger(ctx, log.L.WithField("component", "migrate")), plan)
	for _, pod := range plan.left {
		err = errors.Join(err, fmt.Errorf("pod sandbox %s was not taken over: %w", pod.id, pod.err))
	}
	return err
}

// apply takes pods over concurrently, because each pod waits for the disk several times.
func (n *Node) apply(ctx context.Context, plan *Plan) error {
	errs := make([]error, len(plan.pods))
	var group errgroup.Group
	group.SetLimit(maxAdoptions)
	for i, pod := range plan.pods {
		group.Go(func() error { errs[i] = n.adopt(ctx, pod); return nil })
	}
	_ = group.Wait() // errs has the errors
	return errors.Join(errs...)
}
