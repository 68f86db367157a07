package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/container"
	engineapi "github.com/moby/moby/api/types/network"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
)

// engine is an engine in memory whose running containers have a real process in a network namespace of its own.
type engine struct {
	*dockertest.Engine
	// bridge says that the engine has a bridge. Running pods have this address on it.
	bridge  bool
	address netip.Addr
	// runtime says that the engine has criadapter-oci. driver replaces its cgroup driver unless empty.
	runtime bool
	driver  string
	// peer is the engine's process id. 0 means this process.
	peer int

	mu        sync.Mutex
	processes map[string]*process
	// creating is called before a container is created.
	creating func(docker.ContainerSpec)
	// started is called after a container has started.
	started func(id string)
}

type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func (e *engine) CreateContainer(ctx context.Context, spec docker.ContainerSpec) (string, error) {
	if e.creating != nil {
		e.creating(spec)
	}
	if e.runtime {
		spec.Note = nil // the engine in memory knows no runtimes
	}
	return e.Engine.CreateContainer(ctx, spec)
}

func (e *engine) StartContainer(ctx context.Context, id string) error {
	if err := e.Engine.StartContainer(ctx, id); err != nil {
		return err
	}
	e.newProcess(id)
	if e.started != nil {
		e.started(id)
	}
	return nil
}

// newProcess starts a process for a container and ends its old one.
func (e *engine) newProcess(id string) {
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(fmt.Sprintf("cannot start a process in a network namespace: %v", err))
	}
	e.endProcess(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.processes[id] = &process{cmd, stdin}
}

func (e *engine) endProcess(id string) {
	e.mu.Lock()
	p := e.processes[id]
	delete(e.processes, id)
	e.mu.Unlock()
	if p != nil {
		_ = p.stdin.Close()
		_ = p.cmd.Wait()
	}
}

// Features applies runtime, driver and peer.
func (e *engine) Features(ctx context.Context) (docker.Features, error) {
	features, err := e.Engine.Features(ctx)
	if e.runtime {
		features.OCIRuntime.Name, features.OCIRuntime.UserNamespaces = "criadapter", true
	}
	features.Process = cmp.Or(e.peer, os.Getpid())
	features.CgroupDriver = cmp.Or(e.driver, features.CgroupDriver)
	return features, err
}

func (e *engine) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	err := e.Engine.StopContainer(ctx, id, grace)
	if err == nil {
		e.endProcess(id)
	}
	return err
}

func (e *engine) RemoveContainer(ctx context.Context, id string) error {
	err := e.Engine.RemoveContainer(ctx, id)
	if err == nil {
		e.endProcess(id)
	}
	return err
}

func (e *engine) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	inspect, err := e.Engine.InspectContainer(ctx, id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[inspect.ID]; p != nil && inspect.State.Running {
		inspect.State.Pid = p.cmd.Process.Pid
	}
	if e.bridge && inspect.State.Running && !inspect.HostConfig.NetworkMode.IsHost() {
		inspect.NetworkSettings.Networks = map[string]*engineapi.EndpointSettings{
			"bridge": {IPAddress: e.address},
		}
	}
	return inspect, nil
}

// end ends all processes and the engine.
func (e *engine) end() {
	e.mu.Lock()
	ids := slices.Collect(maps.Keys(e.processes))
	e.mu.Unlock()
	for _, id := range ids {
		e.endProcess(id)
	}
	e.Close()
}
