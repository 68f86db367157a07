package dockertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
)

// CreateContainer implements docker.Containers.
func (e *Engine) CreateContainer(ctx context.Context, spec docker.ContainerSpec) (string, error) {
	return ask(ctx, e, "CreateContainer", spec.Name, func() (string, error) { return e.create(spec) })
}

func (e *Engine) create(spec docker.ContainerSpec) (string, error) {
	if err := docker.CheckSpec(spec, e.features); err != nil {
		return "", err
	}
	if spec.Config == nil || spec.Config.Image == "" {
		return "", fmt.Errorf("%w: Config.Image is required", errdefs.ErrInvalidArgument)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	image, err := e.findImage(spec.Config.Image)
	if err != nil {
		return "", err
	}
	c := &container{
		id: e.newID(), name: spec.Name, image: image, imageName: spec.Config.Image,
		config: *spec.Config, created: now(), state: api.StateCreated,
	}
	if spec.Host != nil {
		c.host = *spec.Host
	}
	if err := e.checkCreate(c); err != nil {
		return "", err
	}
	c.inherit(image)
	for i, target := range image.Volumes {
		source := filepath.Join(e.features.Root, "volumes", c.id+strconv.Itoa(i), "_data")
		c.volumes = append(c.volumes, api.MountPoint{Type: "volume", Source: source, Destination: target, RW: true})
	}
	e.containers[c.id] = c
	e.emit(docker.Event{Kind: docker.ContainerCreated}, c)
	return c.id, nil
}

// checkCreate refuses containers that the engine refuses.
func (e *Engine) checkCreate(c *container) error {
	c.name = cmp.Or(c.name, "unnamed_"+c.id[:12])
	if strings.ContainsFunc(c.name, notInName) || len(c.name) < 2 {
		return fmt.Errorf("%w: Invalid container name (%s)", errdefs.ErrInvalidArgument, c.name)
	}
	for _, other := range e.containers {
		if other.name == c.name {
			return fmt.Errorf("%w: The container name %q is already in use by container %q", errdefs.ErrConflict,
				c.name, other.id)
		}
	}
	if runtime := c.host.Runtime; runtime != "" && !slices.Contains(e.features.Runtimes, runtime) {
		return fmt.Errorf("%w: unknown or invalid runtime name: %s", errdefs.ErrInvalidArgument, runtime)
	}
	return nil
}

func notInName(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", r)
}

// inherit sets the unset values of the configuration to the image's.
func (c *container) inherit(image *Image) {
	labels := maps.Clone(image.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	maps.Copy(labels, c.config.Labels)
	c.config.Labels = labels
	if len(c.config.Entrypoint) == 0 {
		c.config.Entrypoint = image.Entrypoint
		if len(c.config.Cmd) == 0 {
			c.config.Cmd = image.cmd
		}
	}
	c.config.User = cmp.Or(c.config.User, image.User)
	c.config.StopSignal = cmp.Or(c.config.StopSignal, image.stopSignal)
	c.config.Env = slices.Concat(image.Env, c.config.Env)
}

// StartContainer implements docker.Containers.
func (e *Engine) StartContainer(ctx context.Context, id string) error {
	return e.onAny(ctx, "StartContainer", id, e.start)
}

// start starts a container. The caller holds the lock.
func (e *Engine) start(c *container) error {
	if c.running() {
		return nil
	}
	if err := e.checkJoined(c); err != nil {
		return err
	}
	c.program, _ = e.program(c.imageName, c.command())
	if c.program.Start != nil {
		c.exitCode, c.startError = 127, c.program.Start.Error()
		return fmt.Errorf("%w: %w", errdefs.ErrInvalidArgument, c.program.Start)
	}
	e.settle(c)
	c.state, c.pid, c.exitCode, c.startError, c.oomKilled = api.StateRunning, e.newPID(), 0, "", false
	c.started, c.listedUntil = now(), time.Time{}
	c.stopped = make(chan struct{})
	e.emit(docker.Event{Kind: docker.ContainerStarted}, c)
	c.print(c.program.Stdout, c.program.Stderr)
	if c.program.Exits {
		c.exitTimer = e.later(c.program.ExitAfter, func() {
			c.oomKilled = c.program.OOMKilled
			e.exit(c, c.program.ExitCode)
		})
	}
	return nil
}

// checkJoined refuses to start a container that joins the namespaces of a container that does not run.
func (e *Engine) checkJoined(c *container) error {
	for _, mode := range []string{string(c.host.NetworkMode), string(c.host.IpcMode), string(c.host.PidMode)} {
		owner, ok := strings.CutPrefix(mode, "container:")
		if !ok {
			continue
		}
		other, err := e.find(owner)
		if err != nil {
			return err
		}
		if !other.running() {
			return fmt.Errorf("%w: container %s is not running", errdefs.ErrInternal, other.id)
		}
	}
	return nil
}

// Exit ends a running container with that exit code, as if its process did.
func (e *Engine) Exit(id string, code int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(id)
	if err != nil {
		return err
	}
	if !c.running() {
		return fmt.Errorf("%w: container %s is not running", errdefs.ErrConflict, c.id)
	}
	e.exit(c, code)
	return nil
}

// exit ends a container. The caller holds the lock.
func (e *Engine) exit(c *container, code int) {
	if !c.running() {
		return
	}
	e.cancel(c.exitTimer)
	for _, x := range e.execs {
		if x.container == c {
			e.endExecution(x, killed)
		}
	}
	c.endAttachments()
	c.state, c.pid, c.exitCode, c.finished = api.StateExited, 0, code, now()
	if c.oomKilled {
		e.emit(docker.Event{Kind: docker.ContainerOOM}, c)
	}
	died := docker.Event{Kind: docker.ContainerDied}
	switch {
	case e.flavor == Docker20:
		c.listedUntil = c.finished.Add(e.lag)
		e.emit(died, c)
		close(c.stopped)
	case e.lag == 0:
		e.emit(died, c)
		close(c.stopped)
	default:
		close(c.stopped)
		c.owed = &died
		c.owedTimer = e.later(e.lag, func() { e.settle(c) })
	}
	// The kernel ends a PID namespace with its first process.
	for _, other := range e.containers {
		if owner, ok := strings.CutPrefix(string(other.host.PidMode), "container:"); ok &&
			(owner == c.id || owner == c.name) {
			e.exit(other, killed)
		}
	}
}

// settle publishes the container's owed die event, which must come before any later event. The caller holds the lock.
func (e *Engine) settle(c *container) {
	e.cancel(c.owedTimer)
	if owed := c.owed; owed != nil {
		c.owed = nil
		e.emit(*owed, c)
	}
}

// emit publishes an event about a container, unless the engine is away. The
// caller holds the lock.
func (e *Engine) emit(event docker.Event, c *container) {
	if e.away {
		return
	}
	event.ID, event.Time = c.id, now()
	event.Labels = maps.Clone(c.config.Labels)
	if event.Labels == nil {
		event.Labels = make(map[string]string)
	}
	if label, ok := event.Labels["execID"]; ok && event.ExecID != "" {
		event.ExecID = label // a label hides the exec id, as in real engines
	}
	if _, hidden := event.Labels["exitCode"]; event.Kind == docker.ContainerDied && !hidden {
		event.Labels["exitCode"] = strconv.Itoa(c.exitCode)
	}
	event.Labels["name"], event.Labels["image"] = c.name, c.imageName
	e.log.add(event)
}

// now returns the time as the API has it, without a monotonic clock.
func now() time.Time { return time.Unix(0, time.Now().UnixNano()) }
