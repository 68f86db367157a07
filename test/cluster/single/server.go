package single

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/moby/moby/client"
	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// The names of CRI servers.
const (
	Criadapter = "criadapter"
	Containerd = "containerd"
	CRIDockerd = "cri-dockerd"
)

// Servers are all names, the one that is taken when none is named first.
func Servers() []string { return []string{Criadapter, Containerd, CRIDockerd} }

// podNetwork is the number of the peers' network.
const podNetwork = 7

// connectTimeout bounds each of the kubelet's client's calls.
const connectTimeout = time.Minute

// Server is a CRI server that runs.
type Server struct {
	// Name is one of Servers.
	Name string
	// Endpoint is its address, unix:///….
	Endpoint string
	// PID is its process, the first one of a criadapter that is killed and started again.
	PID int
	// Adapter is criadapter's own, for those who kill it, and Metrics the socket of its metrics; none of the others'.
	Adapter *adapter.Server
	Metrics string

	stop func(context.Context) error
	// calls counts the CRI requests by method, nil where nobody does.
	calls func(context.Context) (map[string]int, error)
}

// startServer starts the server that is named. Its log is in dir.
func startServer(ctx context.Context, opts Options, dir string) (Server, error) {
	switch opts.Server {
	case Criadapter:
		return startCriadapter(ctx, opts, dir)
	case Containerd:
		return startContainerd(ctx, opts.Env, dir)
	case CRIDockerd:
		return startCRIDockerd(ctx, opts.Env, dir)
	}
	return Server{}, fmt.Errorf("no server is named %q: want one of %s", opts.Server, strings.Join(Servers(), ", "))
}

func startCriadapter(ctx context.Context, opts Options, dir string) (Server, error) {
	metrics := filepath.Join(dir, "m.sock")
	a, err := adapter.New(adapter.Options{Env: opts.Env, Flags: append([]string{"--log-level=info", "--metrics-bind-addr=unix://" + metrics}, opts.Flags...)})
	if err != nil {
		return Server{}, err
	}
	unmount, err := mountDisk(a.RootDir, opts.Disk)
	if err != nil {
		return Server{}, errors.Join(err, a.Close(ctx))
	}
	stop := func(ctx context.Context) error {
		text, err := os.ReadFile(a.LogPath)
		return errors.Join(err, os.WriteFile(filepath.Join(dir, "criadapter.log"), text, 0o644), a.Stop(ctx), unmount(), a.Close(ctx))
	}
	if err := a.Start(ctx); err != nil {
		return Server{}, errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	calls := func(ctx context.Context) (map[string]int, error) { return countCalls(ctx, metrics) }
	return Server{Name: Criadapter, Endpoint: a.Endpoint, PID: a.PID(), Adapter: a, Metrics: metrics, stop: stop, calls: calls}, nil
}

func startContainerd(ctx context.Context, env rigenv.Env, dir string) (Server, error) {
	c, err := peers.NewContainerd(env, dir, podNetwork)
	if err != nil {
		return Server{}, err
	}
	if err := c.Start(ctx); err != nil {
		return Server{}, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
	}
	return Server{Name: Containerd, Endpoint: c.Endpoint(), PID: c.PID(), stop: c.Close}, nil
}

func startCRIDockerd(ctx context.Context, env rigenv.Env, dir string) (Server, error) {
	program, err := peers.CRIDockerd(ctx) // from the cache: there is no way to the module proxy in the rig
	if err != nil {
		return Server{}, err
	}
	network := peers.PodNetwork{Number: podNetwork}
	networks, err := network.Write(dir)
	if err != nil {
		return Server{}, err
	}
	if err := loadSandboxImage(ctx, env.DockerHost); err != nil {
		return Server{}, err
	}
	endpoint := "unix://" + filepath.Join(dir, "c.sock")
	p, err := peers.StartProcess(filepath.Join(dir, "cri-dockerd.log"), nil, program,
		"--container-runtime-endpoint="+endpoint, "--docker-endpoint="+env.DockerHost,
		"--cri-dockerd-root-directory="+filepath.Join(dir, "root"), "--pod-infra-container-image="+pause.Reference,
		"--network-plugin=cni", "--cni-conf-dir="+networks, "--cni-bin-dir="+env.CNIBinDir,
		"--cni-cache-dir="+filepath.Join(dir, "cni-cache"), "--streaming-bind-addr=127.0.0.1:0")
	if err != nil {
		return Server{}, err
	}
	stop := func(ctx context.Context) error { return errors.Join(p.Stop(ctx), network.Remove()) }
	if err := p.AwaitCRI(ctx, endpoint); err != nil {
		return Server{}, errors.Join(fmt.Errorf("cri-dockerd: %w", err), stop(context.WithoutCancel(ctx)))
	}
	return Server{Name: CRIDockerd, Endpoint: endpoint, PID: p.PID(), stop: stop}, nil
}

// loadSandboxImage gives an engine the sandbox image that is built into criadapter.
func loadSandboxImage(ctx context.Context, host string) error {
	archive, err := pause.Archive(runtime.GOARCH)
	if err != nil {
		return err
	}
	engine, err := client.New(client.WithHost(host))
	if err != nil {
		return err
	}
	defer engine.Close()
	loaded, err := engine.ImageLoad(ctx, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, loaded)
	return errors.Join(err, loaded.Close())
}

// removePods removes every pod.
func (s Server) removePods(ctx context.Context) error {
	pods, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(s.Endpoint).WithConnectionTimeout(connectTimeout).Build(ctx)
	if err != nil {
		return err
	}
	sandboxes, err := pods.ListPodSandbox(ctx, nil)
	errs := []error{err}
	for _, sandbox := range sandboxes {
		errs = append(errs, pods.StopPodSandbox(ctx, sandbox.GetId()), pods.RemovePodSandbox(ctx, sandbox.GetId()))
	}
	return errors.Join(append(errs, pods.Close(ctx))...)
}
