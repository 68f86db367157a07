package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/test/rig/adapter"
)

// raw drives the engine and the CNI plugins without a CRI server: no CRI server can be quicker.
type raw struct {
	name   string
	bench  *bench
	engine *client.Client
	cni    *libcni.CNIConfig
	config *libcni.NetworkConfigList
	// best names the image by its id, and stops the sandbox while CNI DEL runs. best also sets NetworkDisabled, which
	// on Docker 20.10 is far quicker than the network mode "none" alone.
	best bool
}

func (b *bench) newRaw(name string, best bool) (*raw, error) {
	engine, err := client.New(client.WithHost(b.env.DockerHost))
	if err != nil {
		return nil, err
	}
	config, err := libcni.NetworkConfFromFile(b.adapter.CNIConfig())
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &raw{
		name: name, bench: b, engine: engine, config: config, best: best,
		cni: libcni.NewCNIConfigWithCacheDir([]string{b.env.CNIBinDir}, filepath.Join(b.dir, "raw-cni"), nil),
	}, nil
}

// rawPod holds the parts of a pod that still have to be removed.
type rawPod struct {
	sandbox, container string
	net                *libcni.RuntimeConf
	ip                 string
}

// cycle takes a pod through the same calls as criServer.cycle.
func (r *raw) cycle(ctx context.Context, name string, tell clock) (err error) {
	p := &rawPod{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.remove(context.WithoutCancel(ctx), p))
		}
	}()
	var up, down time.Duration
	for _, step := range []struct {
		call string
		do   func() error
		sum  *time.Duration
	}{
		{callRun, func() error { return r.run(ctx, p, name) }, &up},
		{callCreate, func() error { return r.create(ctx, p, name) }, &up},
		{callStart, func() error { return r.start(ctx, p.container) }, &up},
		{callExec, func() error { return r.exec(ctx, p.container) }, new(time.Duration)},
		{callContainerStatus, func() error { return r.inspect(ctx, p.container) }, new(time.Duration)},
		{callPodStatus, func() error { return r.inspect(ctx, p.sandbox) }, new(time.Duration)},
		{callStop, func() error { return r.stop(ctx, p.container) }, &down},
		{callStopPod, func() error { return r.stopPod(ctx, p) }, &down},
		{callRemove, func() error { return r.removeContainer(ctx, &p.container) }, &down},
		{callRemovePod, func() error { return r.removeContainer(ctx, &p.sandbox) }, &down},
	} {
		if err := tell.timed(step.call, step.do, step.sum); err != nil {
			return err
		}
		if step.call == callStart {
			tell(sumUp, up)
			if err := adapter.Answers(p.ip); err != nil {
				return err
			}
		}
	}
	tell(sumDown, down)
	return nil
}

// run creates, starts and inspects the sandbox container, and calls CNI ADD.
func (r *raw) run(ctx context.Context, p *rawPod, name string) error {
	created, err := r.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   name,
		Config: &container.Config{Image: pause.Reference, NetworkDisabled: r.best},
		HostConfig: &container.HostConfig{NetworkMode: "none", IpcMode: "shareable",
			Resources: container.Resources{CgroupParent: r.bench.cgroup}},
	})
	if err != nil {
		return err
	}
	p.sandbox = created.ID
	if err := r.start(ctx, p.sandbox); err != nil {
		return err
	}
	inspect, err := r.engine.ContainerInspect(ctx, p.sandbox, client.ContainerInspectOptions{})
	if err != nil {
		return err
	}
	p.net = &libcni.RuntimeConf{
		ContainerID: p.sandbox,
		NetNS:       fmt.Sprintf("/proc/%d/ns/net", inspect.Container.State.Pid),
		IfName:      "eth0",
	}
	result, err := r.cni.AddNetworkList(ctx, r.config, p.net)
	if err != nil {
		return err
	}
	current, err := types100.GetResult(result)
	if err != nil {
		return fmt.Errorf("the result of CNI ADD: %w", err)
	}
	if len(current.IPs) == 0 {
		return errors.New("CNI ADD gave no address")
	}
	p.ip = current.IPs[0].Address.IP.String()
	return nil
}

func (r *raw) create(ctx context.Context, p *rawPod, name string) error {
	image := r.bench.image
	if r.best {
		image = r.bench.servers[0].imageRef // criadapter refers to an image by the engine's id
	}
	created, err := r.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   name + "-main",
		Config: &container.Config{Image: image, Cmd: []string{"sleep", "1000000"}},
		HostConfig: &container.HostConfig{
			NetworkMode: container.NetworkMode("container:" + p.sandbox),
			IpcMode:     container.IpcMode("container:" + p.sandbox),
			Resources:   container.Resources{CgroupParent: r.bench.cgroup, CPUShares: 2},
		},
	})
	p.container = created.ID
	return err
}

func (r *raw) start(ctx context.Context, id string) error {
	_, err := r.engine.ContainerStart(ctx, id, client.ContainerStartOptions{})
	return err
}

func (r *raw) inspect(ctx context.Context, id string) error {
	_, err := r.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	return err
}

func (r *raw) exec(ctx context.Context, id string) error {
	created, err := r.engine.ExecCreate(ctx, id,
		client.ExecCreateOptions{AttachStdout: true, AttachStderr: true, Cmd: []string{"true"}})
	if err != nil {
		return err
	}
	attached, err := r.engine.ExecAttach(ctx, created.ID, client.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer attached.Close()
	if _, err := io.Copy(io.Discard, attached.Reader); err != nil {
		return err
	}
	inspect, err := r.engine.ExecInspect(ctx, created.ID, client.ExecInspectOptions{})
	if err == nil && inspect.ExitCode != 0 {
		err = fmt.Errorf("exit code %d", inspect.ExitCode)
	}
	return err
}

func (r *raw) stop(ctx context.Context, id string) error {
	now := 0
	_, err := r.engine.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &now})
	return err
}

func (r *raw) stopPod(ctx context.Context, p *rawPod) error {
	var group errgroup.Group
	if !r.best {
		group.SetLimit(1)
	}
	group.Go(func() error { return r.delNetwork(ctx, p) })
	group.Go(func() error { return r.stop(ctx, p.sandbox) })
	return group.Wait()
}

func (r *raw) delNetwork(ctx context.Context, p *rawPod) error {
	if p.net == nil {
		return nil
	}
	err := r.cni.DelNetworkList(ctx, r.config, p.net)
	p.net = nil
	return err
}

func (r *raw) removeContainer(ctx context.Context, id *string) error {
	if *id == "" {
		return nil
	}
	_, err := r.engine.ContainerRemove(ctx, *id, client.ContainerRemoveOptions{Force: true})
	*id = ""
	return err
}

// remove removes the parts of a pod that exist.
func (r *raw) remove(ctx context.Context, p *rawPod) error {
	return errors.Join(r.delNetwork(ctx, p), r.removeContainer(ctx, &p.container), r.removeContainer(ctx, &p.sandbox))
}
