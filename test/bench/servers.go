package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
	procs "github.com/criadapter/criadapter/test/rig/usage"
)

// startCriadapter starts criadapter on the rig's engine. criadapter reaches the engine through a symbolic link, so that
// a counting proxy can replace the engine's socket.
func (b *bench) startCriadapter(ctx context.Context) (*criServer, error) {
	b.engineLink = filepath.Join(b.dir, "engine.sock")
	if err := os.Symlink(strings.TrimPrefix(b.env.DockerHost, "unix://"), b.engineLink); err != nil {
		return nil, err
	}
	env := b.env
	env.DockerHost = "unix://" + b.engineLink
	var err error
	b.adapter, err = adapter.New(adapter.Options{Env: env, Flags: []string{"--log-level=info", "--oci-runtime=off"}})
	if err != nil {
		return nil, err
	}
	s := &criServer{name: nameCriadapter, endpoint: b.adapter.Endpoint, bench: b, kill: b.killOnEngine,
		stop: b.adapter.Close}
	if err := b.adapter.Start(ctx); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	s.processes = []int{b.adapter.PID()}
	s.state = filepath.Dir(strings.TrimPrefix(b.env.DockerHost, "unix://"))
	if s.engine, err = procs.EngineAt(b.env.DockerHost); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	if err := s.connect(ctx, b.adapter.Ended()); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// startWithOCI starts criadapter with pods that have no sandbox container, on an engine of its own like the rig's.
func (b *bench) startWithOCI(ctx context.Context) (*criServer, error) {
	eng, err := b.startEngine(ctx, "o")
	if err != nil {
		return nil, err
	}
	s := &criServer{name: nameWithOCI, bench: b, state: eng.dir, engine: eng.processes, engineHost: eng.Host(),
		stop: eng.stop}
	env := b.env
	env.DockerHost = eng.Host()
	a, err := adapter.New(adapter.Options{Env: env, Flags: []string{
		"--log-level=info", "--oci-runtime=required", "--sandbox-container=needed",
	}})
	if err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	s.endpoint = a.Endpoint
	s.stop = func(ctx context.Context) error { return errors.Join(a.Close(ctx), eng.stop(ctx)) }
	if err := a.Start(ctx); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	s.processes = []int{a.PID()}
	s.restart = s.restarting(a.Stop, a.Start, a.PID, a.Ended)
	if err := s.connect(ctx, a.Ended()); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// killOnEngine kills a container as the docker command does.
func (b *bench) killOnEngine(ctx context.Context, id string) error {
	engine, err := client.New(client.WithHost(b.env.DockerHost))
	if err != nil {
		return err
	}
	defer engine.Close()
	_, err = engine.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"})
	return err
}

// ownEngine is an engine that one server alone drives.
type ownEngine struct {
	*engine.Engine
	dir       string
	processes []int
}

// startEngine starts an engine with the rig's settings.
func (b *bench) startEngine(ctx context.Context, name string) (ownEngine, error) {
	dir := filepath.Join(b.dir, name)
	eng, err := engine.Launch(ctx, engine.Options{
		Dir: dir, Env: b.env, Config: map[string]any{"cgroup-parent": b.cgroup},
	})
	if err != nil {
		return ownEngine{}, err
	}
	processes, err := procs.Engine(eng.PID())
	if err != nil {
		eng.Kill()
	}
	return ownEngine{eng, dir, processes}, err
}

func (e ownEngine) stop(context.Context) error { e.Kill(); return nil }

// startContainerd starts the containerd of the rig's engine.
func (b *bench) startContainerd(ctx context.Context) (*criServer, error) {
	dir, err := b.directory(nameContainerd)
	if err != nil {
		return nil, err
	}
	c, err := peers.NewContainerd(b.env, dir, 1)
	if err != nil {
		return nil, err
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	s := &criServer{name: nameContainerd, endpoint: c.Endpoint(), bench: b, state: dir, processes: []int{c.PID()},
		stop: c.Close}
	s.kill = func(_ context.Context, id string) error { return c.KillContainer(id) }
	s.restart = s.restarting(c.Stop, c.Start, c.PID, c.Ended)
	if err := s.connect(ctx, c.Ended()); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// startCRIDockerd starts cri-dockerd and the engine that it drives.
func (b *bench) startCRIDockerd(ctx context.Context, program string) (*criServer, error) {
	dir, err := b.directory(nameCRIDockerd)
	if err != nil {
		return nil, err
	}
	network := peers.PodNetwork{Number: 2}
	networks, err := network.Write(dir)
	if err != nil {
		return nil, err
	}
	eng, err := b.startEngine(ctx, "e")
	if err != nil {
		return nil, err
	}
	server := peers.CRIDockerdServer{Env: eng.Use(b.env), Program: program, Dir: dir, Networks: networks}
	s := &criServer{
		name: nameCRIDockerd, endpoint: server.Endpoint(), bench: b,
		state: eng.dir, engine: eng.processes, stop: eng.stop,
	}
	if err := peers.LoadSandboxImage(ctx, eng.Host()); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	p, err := server.Start()
	if err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	s.processes = []int{p.PID()}
	s.stop = func(ctx context.Context) error { return errors.Join(p.Stop(ctx), eng.stop(ctx), network.Remove()) }
	if err := s.connect(ctx, p.Ended()); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; the end of its log:\n%s", err, p.LogTail()), s.stop(ctx))
	}
	return s, nil
}

// directory makes the directory of a peer.
func (b *bench) directory(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, os.Mkdir(dir, 0o755)
}
