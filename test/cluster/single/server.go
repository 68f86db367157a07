package single

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	cri "k8s.io/cri-client/pkg"

	"github.com/criadapter/criadapter/test/bench/peers"
	"github.com/criadapter/criadapter/test/program"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/footprint"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// The names of CRI servers.
const (
	Criadapter = "criadapter"
	Containerd = "containerd"
	CRIDockerd = "cri-dockerd"
)

// Servers returns all names.
func Servers() []string { return []string{Criadapter, Containerd, CRIDockerd} }

// podNetwork is the number of the pod network of containerd or cri-dockerd.
const podNetwork = 7

// connectTimeout bounds each call of the client that removes pods.
const connectTimeout = time.Minute

// Server is a CRI server that runs.
type Server struct {
	// Name is one of Servers.
	Name string
	// Endpoint is its address, unix:///….
	Endpoint string
	// PID is the id of its first process. A restart does not change the field.
	PID int
	// Adapter is criadapter itself, and Metrics are its metrics; nil for the other servers.
	Adapter *adapter.Server
	Metrics *footprint.Metrics

	stop func(context.Context) error
}

// startServer starts the server that opts names. The server's log is in dir.
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
	metrics := footprint.NewMetrics(filepath.Join(dir, "m.sock"))
	flags := append([]string{"--log-level=info", metrics.Flag()}, opts.Flags...)
	a, err := adapter.New(adapter.Options{Env: opts.Env, Flags: flags})
	if err != nil {
		return Server{}, err
	}
	unmount, err := mountDisk(a.RootDir, opts.Disk)
	if err != nil {
		return Server{}, errors.Join(err, a.Close(ctx))
	}
	stop := func(ctx context.Context) error {
		return errors.Join(a.Stop(ctx), program.KeepFiles(dir, a.Dir, filepath.Base(a.LogPath)), unmount(),
			a.Close(ctx))
	}
	if err := a.Start(ctx); err != nil {
		return Server{}, errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	return Server{Name: Criadapter, Endpoint: a.Endpoint, PID: a.PID(), Adapter: a, Metrics: metrics, stop: stop}, nil
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
	dockerd, err := peers.CRIDockerd(ctx) // from the cache, because the rig cannot reach the module proxy
	if err != nil {
		return Server{}, err
	}
	network := peers.PodNetwork{Number: podNetwork}
	networks, err := network.Write(dir)
	if err != nil {
		return Server{}, err
	}
	if err := peers.LoadSandboxImage(ctx, env.DockerHost); err != nil {
		return Server{}, err
	}
	server := peers.CRIDockerdServer{Env: env, Program: dockerd, Dir: dir, Networks: networks}
	p, err := server.Start()
	if err != nil {
		return Server{}, err
	}
	stop := func(ctx context.Context) error { return errors.Join(p.Stop(ctx), network.Remove()) }
	if err := peers.AwaitCRI(ctx, p, server.Endpoint()); err != nil {
		return Server{}, errors.Join(fmt.Errorf("cri-dockerd: %w", err), stop(context.WithoutCancel(ctx)))
	}
	return Server{Name: CRIDockerd, Endpoint: server.Endpoint(), PID: p.PID(), stop: stop}, nil
}

// removePods removes every pod.
func (s Server) removePods(ctx context.Context) error {
	pods, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(s.Endpoint).WithConnectionTimeout(connectTimeout).
		Build(ctx)
	if err != nil {
		return err
	}
	return errors.Join(adapter.RemovePods(ctx, pods, nil), pods.Close(ctx))
}
