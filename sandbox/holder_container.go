package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// containerHolder keeps a pod's namespaces in a container of the engine. The pod's id is the container's id. The
// container's program only waits.
type containerHolder struct {
	opts       *Options
	network    podNetwork
	users      userPins
	engineView *mountView
}

// clearName removes a sandbox container that has the name but is not in the cache. A create whose answer was lost
// leaves such a container, and no client has its id. A sandbox with a checkpoint is refused: it may hold an address,
// which only StopPodSandbox releases. Any other container is left alone.
func (h containerHolder) clearName(ctx context.Context, name string) error {
	inspect, err := h.opts.Engine.InspectContainer(ctx, name)
	if err != nil {
		return docker.IgnoreNotFound(err)
	}
	if inspect.Config == nil || translate.Identify(name, inspect.Config.Labels) != translate.KindSandbox {
		return fmt.Errorf(
			"the container name %s is taken by a container that is not a pod sandbox, rename or remove it: %w", name,
			errdefs.ErrAlreadyExists)
	}
	if _, err := h.opts.Store.Load(ctx, inspect.ID); !errdefs.IsNotFound(err) {
		return errors.Join(exists(name, inspect.ID), err)
	}
	err = translate.CheckOwner("pod sandbox", name, inspect.ID, inspect.Config.Labels, h.opts.RootDirectory)
	if err != nil {
		return err
	}
	return docker.IgnoreNotFound(h.opts.Engine.RemoveContainer(ctx, inspect.ID))
}

// repair implements holder. It pins the namespace of a running sandbox again if the pin is gone. A pin of another
// namespace means that the sandbox was restarted and that its namespace lacks the pod's addresses.
func (h containerHolder) repair(ctx context.Context, pod *state.Pod, record checkpoint.Record) error {
	path := record.NetnsPath
	if path == "" || pod.Status.PID == 0 { // no namespace of its own, or not inspected yet
		return nil
	}
	handle := netns.Open(path)
	if !handle.Alive() && pod.Status.RanBefore() { // its addresses went with its first namespace
		h.loseNetwork(ctx, pod)
		return nil
	}
	if !handle.Alive() {
		_, err := netns.Pin(pod.Status.PID, filepath.Dir(path), filepath.Base(path))
		return err
	}
	same, err := handle.SameAs(pod.Status.PID)
	if err != nil {
		return fmt.Errorf("comparing the pod's network namespace with its pin: %w", err)
	}
	if !same {
		h.loseNetwork(ctx, pod)
	}
	return nil
}

func (h containerHolder) loseNetwork(ctx context.Context, pod *state.Pod) {
	log.G(ctx).Warn("pod sandbox was restarted and has lost its network, marking it not ready")
	h.opts.Cache.UpdatePod(pod.ID, func(st *state.PodStatus) { st.NetworkReady = false })
}

// stop implements holder.
func (h containerHolder) stop(ctx context.Context, id string) error {
	if err := docker.IgnoreNotFound(h.opts.Engine.StopContainer(ctx, id, stopGrace)); err != nil {
		return err
	}
	_, err := h.opts.Cache.RefreshPod(ctx, id)
	return docker.IgnoreNotFound(err)
}

// stopGrace is how long the program of a sandbox may take to end after the stop signal of its container. The stop
// signal is SIGTERM for sandboxes that other shims or criadapter before 1.0 made.
const stopGrace = 10 * time.Second

// remove implements holder.
func (h containerHolder) remove(ctx context.Context, id string) error {
	return docker.IgnoreNotFound(h.opts.Engine.RemoveContainer(ctx, id))
}
