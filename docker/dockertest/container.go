package dockertest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/go-units"
	api "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
)

// container is one container. The engine's lock guards it.
type container struct {
	id, name  string
	image     *Image
	imageName string
	config    api.Config
	host      api.HostConfig
	created   time.Time
	program   Program

	state      api.ContainerState
	pid        int
	exitCode   int
	oomKilled  bool
	startError string
	started    time.Time
	finished   time.Time
	exitTimer  *time.Timer
	stopped    chan struct{}
	// listedUntil is the time until which lists show the container as running.
	listedUntil time.Time
	// owed is a die event that is not published yet.
	owed      *docker.Event
	owedTimer *time.Timer

	paused  bool
	changes []api.FilesystemChange
	// volumes are the volumes that the image declares. CopyToContainer makes their directories.
	volumes []api.MountPoint
	// copied has archives by the directory that they were copied to.
	copied map[string][]byte

	attached []*attachment
	log      []printed
	terminal docker.TerminalSize
}

func hexDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// find looks a container up by id, name or the beginning of its id.
func (e *Engine) find(ref string) (*container, error) {
	if c, ok := e.containers[ref]; ok {
		return c, nil
	}
	var found []*container
	for _, c := range e.containers {
		if c.name == strings.TrimPrefix(ref, "/") {
			return c, nil
		}
		if ref != "" && strings.HasPrefix(c.id, ref) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%w: No such container: %s", errdefs.ErrNotFound, ref)
	}
	return found[0], nil
}

// command returns the command line that the container runs.
func (c *container) command() []string {
	return slices.Concat(c.config.Entrypoint, c.config.Cmd)
}

func (c *container) running() bool { return c.state == api.StateRunning }

// inspect describes the container as GET /containers/{id}/json does.
func (c *container) inspect(features docker.Features) *api.InspectResponse {
	config, host := c.config, c.host
	config.Labels = maps.Clone(c.config.Labels)
	dir := filepath.Join(features.Root, "containers", c.id)
	out := &api.InspectResponse{
		ID:             c.id,
		Created:        c.created.UTC().Format(time.RFC3339Nano),
		Name:           "/" + c.name,
		Image:          c.image.ID,
		LogPath:        c.logPath(dir),
		ResolvConfPath: filepath.Join(dir, "resolv.conf"),
		HostsPath:      filepath.Join(dir, "hosts"),
		HostnamePath:   filepath.Join(dir, "hostname"),
		Driver:         features.StorageDriver,
		Platform:       "linux",
		Config:         &config,
		HostConfig:     &host,
		Mounts:         c.mounts(),
		State: &api.State{
			Status:     c.state,
			Running:    c.running(),
			Paused:     c.paused && c.running(),
			OOMKilled:  c.oomKilled,
			Pid:        c.pid,
			ExitCode:   c.exitCode,
			Error:      c.startError,
			StartedAt:  stamp(c.started),
			FinishedAt: stamp(c.finished),
		},
		NetworkSettings: &api.NetworkSettings{},
	}
	if command := c.command(); len(command) > 0 {
		out.Path, out.Args = command[0], command[1:]
	}
	if c.running() {
		out.NetworkSettings.SandboxKey = "/var/run/docker/netns/" + c.id[:12]
	}
	return out
}

// logPath returns the file of the driver json-file, which is the default here. Engines do not report the files of other
// drivers.
func (c *container) logPath(dir string) string {
	switch c.host.LogConfig.Type {
	case "", "json-file":
		return filepath.Join(dir, c.id+"-json.log")
	default:
		return ""
	}
}

// stamp writes a time as the engine does. This includes the zero time.
func stamp(t time.Time) string {
	return t.UTC().Format(time.RFC3339Nano)
}

// summary describes the container as GET /containers/json does.
func (c *container) summary(now time.Time) api.Summary {
	state := c.state
	if now.Before(c.listedUntil) {
		state = api.StateRunning
	}
	out := api.Summary{
		ID:      c.id,
		Names:   []string{"/" + c.name},
		Image:   c.imageName,
		ImageID: c.image.ID,
		Command: strings.Join(c.command(), " "),
		Created: c.created.Unix(),
		Labels:  maps.Clone(c.config.Labels),
		State:   state,
		Status:  status(state, c.exitCode, now.Sub(c.finished)),
		Mounts:  c.mounts(),
	}
	out.HostConfig.NetworkMode = string(c.host.NetworkMode)
	return out
}

// status describes a state as the engine does. ended is the time since the end of an ended container.
func status(state api.ContainerState, exitCode int, ended time.Duration) string {
	switch state {
	case api.StateRunning:
		return "Up 1 second"
	case api.StateExited:
		return fmt.Sprintf("Exited (%d) %s ago", exitCode, units.HumanDuration(ended))
	default:
		return "Created"
	}
}

// mounts lists the binds in both notations, and the image's volumes.
func (c *container) mounts() []api.MountPoint {
	var out []api.MountPoint
	for _, bind := range c.host.Binds {
		source, rest, _ := strings.Cut(bind, ":")
		target, mode, _ := strings.Cut(rest, ":")
		readOnly := slices.Contains(strings.Split(mode, ","), "ro")
		out = append(out, api.MountPoint{Type: "bind", Source: source, Destination: target, Mode: mode, RW: !readOnly})
	}
	for _, m := range c.host.Mounts {
		point := api.MountPoint{Type: m.Type, Source: m.Source, Destination: m.Target, RW: !m.ReadOnly}
		if m.BindOptions != nil {
			point.Propagation = m.BindOptions.Propagation
		}
		out = append(out, point)
	}
	return append(out, c.volumes...)
}

// matches reports whether the container has the labels of a list's filter.
func (c *container) matches(labels map[string]string) bool {
	for key, value := range labels {
		got, ok := c.config.Labels[key]
		if !ok || (value != "" && got != value) {
			return false
		}
	}
	return true
}

// newestFirst is the order of the engine's list.
func newestFirst(a, b api.Summary) int {
	return cmp.Or(cmp.Compare(b.Created, a.Created), strings.Compare(a.ID, b.ID))
}
