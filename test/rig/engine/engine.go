// Package engine runs a Docker Engine of the rig's own: a second dockerd beside the installed one, with its own data
// root, socket, containerd and pid file. The rig starts one for all tests; a test that stops, kills, restarts or
// configures an engine starts another one for itself. An engine must run inside the rig's namespaces, so call
// rigenv.Require first. The end of the namespaces also ends the processes of a killed test.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Options are the options of an engine. Dir and Env are required.
type Options struct {
	// Dir is an empty directory for everything the engine writes. Its path must have at most 69 characters, for the
	// sockets in it.
	Dir string
	// Env describes the rig and names the engine's variant. SearchPath makes the engine's PATH from it.
	Env rigenv.Env
	// Config is added to the engine's daemon.json and wins over the rig's own settings.
	Config map[string]any
	// Runtimes are the paths of more OCI runtimes by their names.
	Runtimes map[string]string
	// Path is a directory that comes first on the engine's PATH, empty for none.
	Path string
	// Rootless runs the engine in a user namespace, as RootlessKit does. The engine then answers, but cannot run
	// containers.
	Rootless bool
}

// Engine is one dockerd with its directory. Its methods must not be called concurrently.
type Engine struct {
	opts    Options
	variant Variant
	process *process.Process
	// closed is closed when the dockerd of the latest start has ended and its stand-in for RootlessKit's socket is
	// closed. It is nil before the first start.
	closed chan struct{}
}

// maxDir is the longest Dir: the kernel allows 107 characters for a socket's path, including the engine's longest name.
const maxDir = 107 - len("/exec/containerd/containerd.sock.ttrpc")

// These timeouts bound the steps of an engine that hangs. A step usually takes a few seconds, and a minute on a slow
// machine.
const (
	startTimeout  = 5 * time.Minute
	removeTimeout = 5 * time.Minute
	termTimeout   = 2 * time.Minute
)

// New prepares an engine in opts.Dir without starting it.
func New(opts Options) (*Engine, error) {
	if opts.Dir == "" {
		return nil, errors.New("engine: Options.Dir is empty")
	}
	if len(opts.Dir) > maxDir {
		return nil, fmt.Errorf("engine: %s is too long for sockets in it, set TMPDIR to a shorter path", opts.Dir)
	}
	if _, err := exec.LookPath(opts.Env.Dockerd); err != nil {
		return nil, fmt.Errorf("engine: %w; install Docker Engine 20.10 or later (Debian: apt-get install docker.io)",
			err)
	}
	variant, err := Named(opts.Env.Engine)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := &Engine{opts: opts, variant: variant}
	if err := errors.Join(os.MkdirAll(opts.Dir, 0o711), os.MkdirAll(e.path("tmp"), 0o700)); err != nil {
		return nil, err
	}
	config, err := json.MarshalIndent(e.config(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("engine: config: %w", err)
	}
	return e, os.WriteFile(e.path("daemon.json"), config, 0o644)
}

// Launch prepares an engine and starts it. Without Options.Dir it makes a directory, which the rig removes.
func Launch(ctx context.Context, opts Options) (*Engine, error) {
	e, err := newInWorkDir(opts)
	if err != nil {
		return nil, err
	}
	return e, e.Start(ctx)
}

// newInWorkDir is New. Without Options.Dir it makes a directory in the rig's scratch directory.
func newInWorkDir(opts Options) (*Engine, error) {
	if opts.Dir == "" {
		var err error
		if opts.Dir, err = os.MkdirTemp(opts.Env.WorkDir, "e"); err != nil {
			return nil, err
		}
	}
	return New(opts)
}

// config is the content of daemon.json. The file is always passed by name, so that the machine's own is not read.
func (e *Engine) config() map[string]any {
	config := map[string]any{
		"data-root":  e.Root(),
		"exec-root":  e.path("exec"),
		"pidfile":    e.path("pid"),
		"hosts":      []string{e.Host()},
		"bridge":     "none",
		"iptables":   false,
		"ip6tables":  false,
		"ip-forward": false,
	}
	runtimes := map[string]any{}
	for name, path := range e.opts.Runtimes {
		runtimes[name] = map[string]any{"path": path}
	}
	if program := e.opts.Env.OCIRuntime; program != "" && e.opts.Env.Registration != rigenv.RegistrationShim {
		runtimes["criadapter"] = map[string]any{
			"path": program, "runtimeArgs": []string{"--criadapter-notes", e.path("notes")},
		}
	}
	if len(runtimes) > 0 {
		config["runtimes"] = runtimes
	}
	maps.Copy(config, e.variant.config)
	maps.Copy(config, e.opts.Config)
	return config
}

func (e *Engine) path(name string) string { return filepath.Join(e.opts.Dir, name) }

// Host is the engine's address, for DOCKER_HOST.
func (e *Engine) Host() string { return "unix://" + e.path("docker.sock") }

// Root is the engine's data root.
func (e *Engine) Root() string { return e.path("root") }

// LogPath is the file with the output of dockerd and its containerd.
func (e *Engine) LogPath() string { return e.path("dockerd.log") }

// PID is dockerd's process id, 0 when it does not run.
func (e *Engine) PID() int {
	if !e.process.Running() {
		return 0
	}
	return e.process.PID()
}

// Signal sends a signal to dockerd. It fails when dockerd does not run.
func (e *Engine) Signal(signal syscall.Signal) error {
	pid := e.PID()
	if pid == 0 { // to kill(2), 0 means the caller's process group
		return fmt.Errorf("engine: %v: dockerd does not run", signal)
	}
	return syscall.Kill(pid, signal)
}

// Start starts dockerd and waits until it answers, at most five minutes. After Terminate or Kill it starts the engine
// again over the same directory.
func (e *Engine) Start(ctx context.Context) error {
	if e.process.Running() {
		return errors.New("engine: already running")
	}
	if e.closed != nil {
		<-e.closed
	}
	// If the pid file of a killed engine stayed, this engine would not start while another process has that process id.
	if err := os.Remove(e.path("pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := exec.Command(e.opts.Env.Dockerd, "--config-file", e.path("daemon.json"))
	// Dumps of a hanging containerd go to TMPDIR.
	cmd.Env = append(os.Environ(), "PATH="+e.SearchPath(), "TMPDIR="+e.path("tmp"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C reaches only the rig, which then stops the engine
	end := func() {}
	if e.opts.Rootless {
		var err error
		if end, err = e.makeRootless(cmd); err != nil {
			return err
		}
	}
	started, err := process.Run(e.LogPath(), cmd)
	if err != nil {
		end()
		return fmt.Errorf("engine: %w", err)
	}
	closed := make(chan struct{})
	e.process, e.closed = started, closed
	go func() {
		defer close(closed)
		<-started.Ended()
		end()
	}()
	if err := e.waitReady(ctx); err != nil {
		e.Kill()
		return fmt.Errorf("engine: %s did not come up: %w", e.opts.Env.Dockerd, err)
	}
	return nil
}

// SearchPath returns the engine's PATH: Options.Path comes before the directories of the function SearchPath.
func (e *Engine) SearchPath() string {
	path := SearchPath(e.opts.Env)
	if e.opts.Path != "" {
		path = e.opts.Path + string(os.PathListSeparator) + path
	}
	return path
}

// SearchPath returns PATH for dockerd, and for a containerd that runs the same runtimes. The rig's runtime wrapper
// comes before the programs beside the rig's dockerd. With RegistrationShim, the directory of criadapter-oci and its
// shim comes first.
func SearchPath(env rigenv.Env) string {
	dirs := []string{filepath.Dir(env.Dockerd), os.Getenv("PATH")}
	if wrapper := env.RuntimeWrapper; wrapper != "" {
		dirs = append([]string{filepath.Dir(wrapper)}, dirs...)
	}
	if env.Registration == rigenv.RegistrationShim && env.OCIRuntime != "" {
		dirs = append([]string{filepath.Dir(env.OCIRuntime)}, dirs...)
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

func (e *Engine) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cli, err := client.New(client.WithHost(e.Host()))
	if err != nil {
		return err
	}
	defer cli.Close()
	return e.process.Await(ctx, func(ctx context.Context) error {
		_, err := cli.Ping(ctx, client.PingOptions{})
		return err
	})
}

// Terminate asks dockerd to end (SIGTERM) and waits for it; after two minutes, or when ctx ends, it is killed. Without
// live-restore dockerd stops its containers on the way.
func (e *Engine) Terminate(ctx context.Context) error {
	if !e.process.Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, termTimeout)
	defer cancel()
	if err := e.process.Stop(ctx); err != nil {
		return fmt.Errorf("engine: %w; see %s", err, e.LogPath())
	}
	return nil
}

// Kill kills dockerd (its containerd dies with it, containers live on) and waits for its end.
func (e *Engine) Kill() {
	if e.process.Running() {
		e.process.Kill()
	}
}

// KillContainerd kills dockerd's own containerd, which dockerd then starts again.
func (e *Engine) KillContainerd() error {
	text, err := os.ReadFile(e.path("exec/containerd/containerd.pid"))
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("engine: containerd's process id: %w", err)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// Close removes the engine's containers with their volumes, and ends dockerd. It does nothing if dockerd does not run.
// The directory stays. Like Terminate it is bounded in time.
func (e *Engine) Close(ctx context.Context) error {
	if !e.process.Running() {
		return nil
	}
	return errors.Join(e.removeContainers(ctx), e.Terminate(ctx))
}

func (e *Engine) removeContainers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	cli, err := client.New(client.WithHost(e.Host()))
	if err != nil {
		return err
	}
	defer cli.Close()
	list, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list.Items {
		if err := removeContainer(ctx, cli, c.ID); err != nil {
			errs = append(errs, fmt.Errorf("remove container %s: %w", c.ID, err))
		}
	}
	return errors.Join(errs...)
}

// removeTries is the maximum number of attempts to remove a container.
const removeTries = 5

// removeContainer kills and removes a container. On a slow machine the engine gives up before the exit of the killed
// process reaches it, so a failed removal is repeated.
func removeContainer(ctx context.Context, cli *client.Client, id string) error {
	var err error
	for range removeTries {
		_, err = cli.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if pace.Sleep(ctx, time.Second) != nil {
			break
		}
	}
	return err
}
