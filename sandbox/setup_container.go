package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/state"
)

// containerSetUp is a sandbox container that is being set up.
type containerSetUp struct {
	containerHolder
	spec docker.ContainerSpec
	// inspect is the container after its start.
	inspect *container.InspectResponse
	// early joins the pod during its start. It is nil before start, and after connect has taken it over.
	early *earlyJoin
}

// create implements holderSetUp. It creates the container again after it has loaded a pruned sandbox image, or removed
// the leftover of an interrupted create.
func (c *containerSetUp) create(ctx context.Context, p *pending) (string, error) {
	if err := c.makeUsers(ctx, p); err != nil {
		return "", err
	}
	id, err := c.opts.Engine.CreateContainer(ctx, c.spec)
	if errdefs.IsNotFound(err) {
		image, loadErr := c.opts.Images.ReloadSandboxImage(ctx)
		if loadErr != nil {
			return "", loadErr
		}
		c.spec.Config.Image = image
		id, err = c.opts.Engine.CreateContainer(ctx, c.spec)
	}
	if errdefs.IsConflict(err) {
		if err := c.clearName(ctx, p.name); err != nil {
			return "", err
		}
		id, err = c.opts.Engine.CreateContainer(ctx, c.spec)
	}
	return id, err
}

// makeUsers makes and pins the pod's user namespace, if the pod's configuration asks for one.
func (c *containerSetUp) makeUsers(ctx context.Context, p *pending) error {
	users := translate.PodUsers(p.config)
	if users == nil {
		return nil
	}
	features, err := c.opts.Engine.Features(ctx)
	if err != nil {
		return err
	}
	if err := c.requireSeen(ctx, features.Process, c.users.dir()); err != nil {
		return fmt.Errorf("the pod's user namespace: %w", err)
	}
	set := netns.Set{User: c.users.path(p.name)}
	setUsers(&set, users)
	if err := c.clearPin(ctx, p.name, set); err != nil {
		return err
	}
	if c.spec, err = translate.InUserNamespace(c.spec, p.config, *users, set.User, features); err != nil {
		return err
	}
	p.record.UserNamespace = set.User
	if err := set.Make(ctx); err != nil {
		return fmt.Errorf("the pod's user namespace: %w", err)
	}
	p.undo.push("unpin the pod's user namespace", func(context.Context) error { return set.Unpin() })
	return nil
}

// requireSeen fails if the engine does not see the pins in a directory.
func (h containerHolder) requireSeen(ctx context.Context, engine int, dir string) error {
	seen, err := h.engineView.sees(ctx, engine, dir)
	if err == nil && !seen {
		err = fmt.Errorf("the engine does not see mounts in %s: mount %s with Bidirectional propagation: %w",
			dir, filepath.Dir(dir), errdefs.ErrFailedPrecondition)
	}
	return err
}

// clearPin removes a pin that a crash left before the pod had a container. The pin stays if the engine has a pod of
// this name that the cache lacks.
func (c *containerSetUp) clearPin(ctx context.Context, name string, set netns.Set) error {
	if _, err := os.Lstat(set.User); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := c.clearName(ctx, name); err != nil {
		return err
	}
	return set.Unpin()
}

// start implements holderSetUp. It writes the intent while the engine starts the sandbox. The intent is on disk before
// CNI ADD. A crash before the intent is on disk leaves a sandbox container without a record, which is never shown as
// READY. CNI ADD may begin before the engine's start call returns, see earlyJoin.
func (c *containerSetUp) start(ctx context.Context, p *pending) error {
	id := p.record.SandboxID
	group, groupCtx := errgroup.WithContext(ctx)
	saved := make(chan struct{})
	group.Go(func() error {
		err := c.opts.Store.Save(ctx, p.record)
		if err == nil {
			close(saved)
		}
		return err
	})
	group.Go(func() error { return c.opts.Files.write(id, p.config, nil) })
	pod := cniPod(p.record, p.config)
	c.early = joinEarly(ctx, c.procsFile(p), saved,
		func(ctx context.Context, pid int) joined { return c.network.join(ctx, pod, pid) })
	group.Go(func() error {
		defer c.early.startReturned()
		return c.opts.Engine.StartContainer(groupCtx, id)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return c.look(ctx, id)
}

// look inspects the container after its start.
func (c *containerSetUp) look(ctx context.Context, id string) error {
	inspect, err := c.opts.Engine.InspectContainer(ctx, id)
	if err != nil {
		return err
	}
	if inspect.State == nil || !inspect.State.Running || inspect.State.Pid <= 0 {
		return fmt.Errorf("the sandbox container ended right after its start, look at the sandbox image "+
			"(--pod-infra-container-image): %w", errdefs.ErrUnknown)
	}
	c.inspect = inspect
	return nil
}

// procsFile is the file that will list the pod's processes. It is empty for a pod that is not joined early. A pod with
// network sysctls is not joined early: its interface must not exist before the sysctls that configure new interfaces.
func (c *containerSetUp) procsFile(p *pending) string {
	if c.opts.Cgroups == nil || c.opts.EngineBridge || translate.UsesHostNetwork(p.config) ||
		setsNetwork(p.config.GetLinux()) {
		return ""
	}
	return c.opts.Cgroups.ProcsFile(p.cgroup.Driver, p.cgroup.Parent, p.record.SandboxID)
}

func setsNetwork(linux *runtimeapi.LinuxPodSandboxConfig) bool {
	for name := range linux.GetSysctls() {
		if strings.HasPrefix(name, "net") {
			return true
		}
	}
	return false
}

// connect implements holderSetUp. With EngineBridge it records the addresses that the engine gave.
func (c *containerSetUp) connect(ctx context.Context, p *pending) error {
	if c.opts.EngineBridge {
		ips := docker.Addresses(c.inspect)
		if len(ips) == 0 {
			return fmt.Errorf("the engine gave the pod no address: start dockerd with a bridge (--bridge) or use "+
				"--network-plugin=cni: %w", errdefs.ErrFailedPrecondition)
		}
		p.record.Network = &checkpoint.Network{Config: engineBridge, IPs: ips}
		return nil
	}
	return c.join(ctx, p)
}

// join completes the early join, or joins the pod now.
func (c *containerSetUp) join(ctx context.Context, p *pending) error {
	early := c.early
	c.early = nil
	j := early.wait()
	if j.handle == nil { // no process was found in time, or the process found has ended
		j = c.network.join(ctx, cniPod(p.record, p.config), c.inspect.State.Pid)
		c.network.recordJoin(p, j)
		return j.err
	}
	c.network.recordJoin(p, j)
	if j.err != nil {
		return j.err
	}
	same, err := j.handle.SameAs(c.inspect.State.Pid)
	if err == nil && !same {
		err = fmt.Errorf("the sandbox is not in the network namespace that its first process was in: %w",
			errdefs.ErrInternal)
	}
	return err
}

// abandon implements holderSetUp.
func (c *containerSetUp) abandon(p *pending) {
	if c.early != nil {
		c.network.recordJoin(p, c.early.giveUp())
	}
}

// entry implements holderSetUp.
func (c *containerSetUp) entry(ctx context.Context, p *pending) state.Pod {
	return state.NewPod(ctx, c.inspect, p.record)
}
