package peers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"runtime"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// CRIDockerdServer is a cri-dockerd on the engine of Env. All fields are required.
type CRIDockerdServer struct {
	Env rigenv.Env
	// Program is the path of cri-dockerd.
	Program string
	// Dir is an existing directory for its socket, log and state.
	Dir string
	// Networks is the directory of its CNI configuration.
	Networks string
}

func (s CRIDockerdServer) path(name string) string { return filepath.Join(s.Dir, name) }

// Endpoint is the address of the CRI socket, unix:///….
func (s CRIDockerdServer) Endpoint() string { return "unix://" + s.path("c.sock") }

// Root and CNICache are the directories of its state.
func (s CRIDockerdServer) Root() string     { return s.path("root") }
func (s CRIDockerdServer) CNICache() string { return s.path("cni-cache") }

// LogPath is the file of its output.
func (s CRIDockerdServer) LogPath() string { return s.path("cri-dockerd.log") }

// Start starts cri-dockerd with additional flags. It does not wait until cri-dockerd answers. The engine must have the
// sandbox image, see LoadSandboxImage.
func (s CRIDockerdServer) Start(flags ...string) (*process.Process, error) {
	return process.Start(s.LogPath(), nil, s.Program, append([]string{
		"--container-runtime-endpoint=" + s.Endpoint(), "--docker-endpoint=" + s.Env.DockerHost,
		"--cri-dockerd-root-directory=" + s.Root(), "--pod-infra-container-image=" + pause.Reference,
		"--network-plugin=cni", "--cni-conf-dir=" + s.Networks, "--cni-bin-dir=" + s.Env.CNIBinDir,
		"--cni-cache-dir=" + s.CNICache(), "--streaming-bind-addr=127.0.0.1:0",
	}, flags...)...)
}

// LoadSandboxImage gives an engine the sandbox image that is built into criadapter.
func LoadSandboxImage(ctx context.Context, host string) error {
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
