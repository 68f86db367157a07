package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/pause"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/engine"
)

// startCriadapter starts the server under measurement on the rig's engine. Its address of the engine is a link, behind
// which a counting proxy can be put.
func (b *bench) startCriadapter(ctx context.Context) (*criServer, error) {
	b.engineLink = filepath.Join(b.dir, "engine.sock")
	if err := os.Symlink(strings.TrimPrefix(b.env.DockerHost, "unix://"), b.engineLink); err != nil {
		return nil, err
	}
	env := b.env
	env.DockerHost = "unix://" + b.engineLink
	var err error
	b.adapter, err = adapter.New(adapter.Options{Env: env, Flags: []string{"--log-level=info"}})
	if err != nil {
		return nil, err
	}
	s := &criServer{name: nameCriadapter, bench: b, stop: b.adapter.Close}
	if err := b.adapter.Start(ctx); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	s.processes = []int{b.adapter.PID()}
	if s.engine, err = b.rigEngine(); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, s.connect(ctx, b.adapter.Endpoint, b.adapter.Ended())
}

// rigEngine returns the processes of the rig's own engine, whose pid file is beside its socket.
func (b *bench) rigEngine() ([]int, error) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(b.env.DockerHost, "unix://")), "pid"))
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	return engineProcesses(pid)
}

// startContainerd starts Debian's containerd with nothing but what CRI needs.
func (b *bench) startContainerd(ctx context.Context) (*criServer, error) {
	dir, err := b.folder(nameContainerd)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(config, []byte(b.containerdConfig(dir)), 0o644); err != nil {
		return nil, err
	}
	p, err := startProcess(dir, b.runtimePath(), "containerd", "--config", config, "--log-level", "warn")
	if err != nil {
		return nil, err
	}
	s := &criServer{name: nameContainerd, bench: b, processes: []int{p.pid()}, stop: p.stop}
	if err := s.connect(ctx, "unix://"+filepath.Join(dir, "c.sock"), p.done); err != nil {
		return nil, errors.Join(p.failed(err), p.stop(ctx))
	}
	if err := b.importSandboxImage(ctx, dir); err != nil {
		return nil, errors.Join(err, p.stop(ctx))
	}
	return s, nil
}

// importSandboxImage gives containerd in dir the sandbox image that is built into criadapter.
func (b *bench) importSandboxImage(ctx context.Context, dir string) error {
	archive, err := pause.Archive(runtime.GOARCH)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "pause.tar")
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, "ctr", "--address", filepath.Join(dir, "c.sock"), "--namespace", "k8s.io", "images", "import", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr images import: %w\n%s", err, output)
	}
	return nil
}

func (b *bench) containerdConfig(dir string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), filepath.Join(dir, "c.sock"), pause.Reference,
		b.env.CNIBinDir, filepath.Join(dir, "net.d"))
}

// startCRIDockerd starts cri-dockerd and the engine that it drives.
func (b *bench) startCRIDockerd(ctx context.Context, program string) (*criServer, error) {
	dir, err := b.folder(nameCRIDockerd)
	if err != nil {
		return nil, err
	}
	eng, err := engine.New(engine.Options{
		Dir: filepath.Join(b.dir, "e"), Dockerd: b.env.Dockerd, RuntimeWrapper: b.env.RuntimeWrapper,
		Config: map[string]any{"cgroup-parent": b.cgroup},
	})
	if err != nil {
		return nil, err
	}
	if err := eng.Start(ctx); err != nil {
		return nil, err
	}
	killEngine := func(context.Context) error { eng.Kill(); return nil }
	s := &criServer{name: nameCRIDockerd, bench: b, stop: killEngine}
	if err := loadSandboxImage(ctx, eng.Host()); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	if s.engine, err = engineProcesses(eng.PID()); err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	p, err := startProcess(dir, nil, program,
		"--container-runtime-endpoint=unix://"+filepath.Join(dir, "c.sock"),
		"--docker-endpoint="+eng.Host(),
		"--cri-dockerd-root-directory="+filepath.Join(dir, "root"),
		"--pod-infra-container-image="+pause.Reference,
		"--network-plugin=cni", "--cni-conf-dir="+filepath.Join(dir, "net.d"),
		"--cni-bin-dir="+b.env.CNIBinDir, "--cni-cache-dir="+filepath.Join(dir, "cni-cache"),
		"--streaming-bind-addr=127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	s.processes = []int{p.pid()}
	s.stop = func(ctx context.Context) error { return errors.Join(p.stop(ctx), killEngine(ctx)) }
	if err := s.connect(ctx, "unix://"+filepath.Join(dir, "c.sock"), p.done); err != nil {
		return nil, errors.Join(p.failed(err), s.stop(ctx))
	}
	return s, nil
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

// folder makes the folder of a peer, with a pod network in net.d.
func (b *bench) folder(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "net.d"), 0o755); err != nil {
		return "", err
	}
	b.networks++
	conflist, err := json.MarshalIndent(podNetwork(b.networks, filepath.Join(dir, "ipam")), "", "  ")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "net.d", "10-bench.conflist"), conflist, 0o644)
}

// podNetwork is what package adapter gives criadapter, with another bridge and other addresses.
func podNetwork(number int, ipamDir string) map[string]any {
	return map[string]any{
		"cniVersion": "1.0.0",
		"name":       fmt.Sprintf("bench%d", number),
		"plugins": []any{
			map[string]any{
				"type": "bridge", "bridge": fmt.Sprintf("bench%d", number), "isGateway": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": ipamDir,
					"ranges": [][]map[string]string{{{"subnet": fmt.Sprintf("10.89.%d.0/24", number)}}},
					"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}
}

// runtimePath lets a containerd find the same OCI runtime as the engines do.
func (b *bench) runtimePath() []string {
	if b.env.RuntimeWrapper == "" {
		return nil
	}
	return []string{"PATH=" + filepath.Dir(b.env.RuntimeWrapper) + string(os.PathListSeparator) + os.Getenv("PATH")}
}
