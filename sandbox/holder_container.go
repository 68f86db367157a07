package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// containerHolder keeps a pod's namespaces in a container of the engine, whose id is the pod's. Its program only waits.
type containerHolder struct{ s *Service }

// pendingContainer is the sandbox container of a pod that is being set up.
type pendingContainer struct {
	spec docker.ContainerSpec
	// inspect is the container after its start.
	inspect *container.InspectResponse
	// early is what joinEarly has started and nobody has waited for.
	early *earlyJoin
}

// create implements holder. It gets two ordinary obstacles out of the way: a sandbox image
// that somebody pruned, and a leftover of a create that nobody finished.
func (h containerHolder) create(ctx context.Context, p *pending) (string, error) {
	if err := h.makeUsers(ctx, p); err != nil {
		return "", err
	}
	id, err := h.s.opts.Engine.CreateContainer(ctx, p.container.spec)
	if errdefs.IsNotFound(err) {
		image, loadErr := h.s.opts.Images.ReloadSandboxImage(ctx)
		if loadErr != nil {
			return "", loadErr
		}
		p.container.spec.Config.Image = image
		id, err = h.s.opts.Engine.CreateContainer(ctx, p.container.spec)
	}
	if errdefs.IsConflict(err) {
		if err := h.clearName(ctx, p.name); err != nil {
			return "", err
		}
		id, err = h.s.opts.Engine.CreateContainer(ctx, p.container.spec)
	}
	return id, err
}

// clearName removes the container that holds a name that the cache does not know: a sandbox from a create whose answer
// was lost. Nobody has its id, so nobody can miss it. One that has a checkpoint came further than that: it may hold an
// address, which only StopPodSandbox gives back.
func (h containerHolder) clearName(ctx context.Context, name string) error {
	inspect, err := h.s.opts.Engine.InspectContainer(ctx, name)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	if inspect.Config == nil || translate.Identify(name, inspect.Config.Labels) != translate.KindSandbox {
		return fmt.Errorf("the container name %s is taken by a container that is not a pod sandbox, rename or remove it: %w", name, errdefs.ErrAlreadyExists)
	}
	if _, err := h.s.opts.Store.Load(ctx, inspect.ID); !errdefs.IsNotFound(err) {
		return errors.Join(exists(name, inspect.ID), err)
	}
	if owner := translate.OtherRootDirectory(name, inspect.Config.Labels, h.s.opts.RootDirectory); owner != "" {
		return fmt.Errorf("pod sandbox %s exists with id %s and belongs to the criadapter with --root-directory=%s, remove it there or count the attempt up: %w",
			name, inspect.ID, owner, errdefs.ErrAlreadyExists)
	}
	return docker.IgnoreNotFound(h.s.opts.Engine.RemoveContainer(ctx, inspect.ID))
}

// start implements holder. It writes the intent while the engine starts the sandbox: the intent has to be on disk before CNI ADD, and a crash
// in between leaves a container of ours without a record, which is never shown as READY. CNI ADD may begin before the
// engine has done, see joinEarly.
func (h containerHolder) start(ctx context.Context, p *pending) error {
	id := p.record.SandboxID
	group, groupCtx := errgroup.WithContext(ctx)
	noted := make(chan struct{})
	group.Go(func() error {
		err := h.s.opts.Store.Save(ctx, p.record)
		if err == nil {
			close(noted)
		}
		return err
	})
	group.Go(func() error { return h.s.opts.Files.write(id, p.config) })
	p.container.early = h.joinEarly(ctx, p, noted)
	group.Go(func() error {
		defer p.container.early.startReturned()
		return h.s.opts.Engine.StartContainer(groupCtx, id)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	inspect, err := h.s.opts.Engine.InspectContainer(ctx, id)
	if err != nil {
		return err
	}
	if inspect.State == nil || !inspect.State.Running || inspect.State.Pid <= 0 {
		return fmt.Errorf("the sandbox container ended right after its start, look at the sandbox image (--pod-infra-container-image): %w", errdefs.ErrUnknown)
	}
	p.container.inspect = inspect
	return nil
}

// connect implements holder.
func (h containerHolder) connect(ctx context.Context, p *pending) error {
	if h.s.opts.EngineBridge {
		ips := docker.Addresses(p.container.inspect)
		if len(ips) == 0 {
			return fmt.Errorf("the engine gave the pod no address: give it its bridge (dockerd --bridge) or use --network-plugin=cni: %w", errdefs.ErrFailedPrecondition)
		}
		p.record.Network = &checkpoint.Network{Config: engineBridge, IPs: ips}
		return nil
	}
	return h.joinPod(ctx, p)
}

// abandon implements holder.
func (h containerHolder) abandon(p *pending) {
	if p.container.early != nil {
		h.s.keep(p, p.container.early.giveUp())
	}
}

// entry implements holder.
func (h containerHolder) entry(ctx context.Context, p *pending) state.Pod {
	return state.NewPod(ctx, p.container.inspect, p.record)
}

// repair implements holder. It pins the namespace of a running sandbox again where the pin is gone. A pin of another
// namespace means that somebody started the sandbox a second time meanwhile: the pod's addresses are not in its
// namespace any more.
func (h containerHolder) repair(ctx context.Context, pod *state.Pod, record checkpoint.Record) error {
	path := record.NetnsPath
	if path == "" {
		return nil
	}
	handle := netns.Open(path)
	if !handle.Alive() {
		_, err := netns.Pin(pod.Status.PID, filepath.Base(path), netns.PinOptions{Dir: filepath.Dir(path)})
		return err
	}
	same, err := handle.SameAs(pod.Status.PID)
	if err != nil {
		return fmt.Errorf("comparing the pod's network namespace with its pin: %w", err)
	}
	if !same {
		log.G(ctx).Warn("pod sandbox was restarted and has lost its network, marking it not ready")
		h.s.opts.Cache.UpdatePod(pod.ID, func(st *state.PodStatus) { st.NetworkReady = false })
	}
	return nil
}

// stop implements holder.
func (h containerHolder) stop(ctx context.Context, id string) error {
	if err := docker.IgnoreNotFound(h.s.opts.Engine.StopContainer(ctx, id, stopGrace)); err != nil {
		return err
	}
	_, err := h.s.opts.Cache.RefreshPod(ctx, id)
	return docker.IgnoreNotFound(err)
}

// remove implements holder.
func (h containerHolder) remove(ctx context.Context, id string) error {
	return docker.IgnoreNotFound(h.s.opts.Engine.RemoveContainer(ctx, id))
}
