package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/pause"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// raw is what anyone could do who drives the engine and the CNI plugins by
// hand: the floor that a CRI server stands on.
type raw struct {
	engine *client.Client
	cni    *libcni.CNIConfig
	config *libcni.NetworkConfigList
	// disabled leaves the network to CNI from the start, which on Docker 20.10
	// is far quicker than the network mode "none" alone.
	disabled bool
}

func newRaw(tb testing.TB, env rigenv.Env, server *adapter.Server) raw {
	tb.Helper()
	engine, err := client.New(client.WithHost(env.DockerHost))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { engine.Close() })
	config, err := libcni.NetworkConfFromFile(server.CNIConfig())
	if err != nil {
		tb.Fatal(err)
	}
	return raw{
		engine: engine,
		cni:    libcni.NewCNIConfigWithCacheDir([]string{env.CNIBinDir}, filepath.Join(server.Dir, "raw-cni"), nil),
		config: config,
	}
}

// run is create, start, inspect and CNI ADD; it returns what remove needs.
func (r raw) run(ctx context.Context, name string) (pod rawPod, err error) {
	created, err := r.engine.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:       name,
		Config:     &container.Config{Image: pause.Reference, NetworkDisabled: r.disabled},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return pod, err
	}
	pod.id = created.ID
	if _, err := r.engine.ContainerStart(ctx, pod.id, client.ContainerStartOptions{}); err != nil {
		return pod, err
	}
	inspect, err := r.engine.ContainerInspect(ctx, pod.id, client.ContainerInspectOptions{})
	if err != nil {
		return pod, err
	}
	pod.net = &libcni.RuntimeConf{
		ContainerID: pod.id,
		NetNS:       fmt.Sprintf("/proc/%d/ns/net", inspect.Container.State.Pid),
		IfName:      "eth0",
	}
	result, err := r.cni.AddNetworkList(ctx, r.config, pod.net)
	if err != nil {
		return pod, err
	}
	current, err := types100.GetResult(result)
	if err != nil || len(current.IPs) == 0 {
		return pod, fmt.Errorf("CNI ADD gave no address: %w", err)
	}
	pod.ip = current.IPs[0].Address.IP.String()
	return pod, nil
}

type rawPod struct {
	id, ip string
	net    *libcni.RuntimeConf
}

func (r raw) remove(ctx context.Context, pod rawPod) error {
	var errs []error
	if pod.net != nil {
		errs = append(errs, r.cni.DelNetworkList(ctx, r.config, pod.net))
	}
	if pod.id != "" {
		_, err := r.engine.ContainerRemove(ctx, pod.id, client.ContainerRemoveOptions{Force: true})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// answers makes sure that a pod counts only when its address works: nobody
// listens there, so the pod's own kernel has to refuse the connection.
func answers(ip string) error {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "1"), 5*time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("somebody listens on port 1 of the sandbox %s", ip)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("the pod's address %s does not answer: %w", ip, err)
	}
	return nil
}
