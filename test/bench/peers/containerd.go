package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/criadapter/criadapter/internal/pause"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/logtail"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Containerd is the containerd of the rig's engine with its CRI plugin. It is the program in the directory of the rig's
// dockerd, or else the installed one. It has its own configuration, root, state, socket and pod network. The OCI
// runtime, the overlay file system, the CNI plugins and the sandbox image are criadapter's. Its methods must not be
// called concurrently.
type Containerd struct {
	// Dir has all its files.
	Dir string

	env     rigenv.Env
	network PodNetwork
	process *process.Process // nil while containerd does not run
	// imported says that containerd has the sandbox image.
	imported bool
}

// NewContainerd writes the configuration into dir, which must exist, without starting anything. number is the Number of
// its PodNetwork.
func NewContainerd(env rigenv.Env, dir string, number int) (*Containerd, error) {
	c := &Containerd{Dir: dir, env: env, network: PodNetwork{Number: number}}
	networks, err := c.network.Write(dir)
	if err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	return c, os.WriteFile(c.path("config.toml"), []byte(c.config(networks)), 0o644)
}

func (c *Containerd) log() string { return c.path("containerd.log") }

func (c *Containerd) path(name string) string { return filepath.Join(c.Dir, name) }

// config has only the settings that CRI needs. Except the shims' sockets in /run, no file is outside of Dir.
func (c *Containerd) config(networks string) string {
	return fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = %q
[plugins."io.containerd.internal.v1.opt"]
  path = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
`, c.path("root"), c.path("state"), c.path("c.sock"), c.path("opt"), pause.Reference, c.env.CNIBinDir, networks)
}

// Endpoint is the address of the CRI socket, unix:///….
func (c *Containerd) Endpoint() string { return "unix://" + c.path("c.sock") }

// Start starts containerd and waits until CRI reports it as ready. The first start imports the sandbox image. After
// Stop or Kill, Start uses the same directory again.
func (c *Containerd) Start(ctx context.Context) error {
	if c.process != nil {
		return errors.New("containerd: already running")
	}
	environ := []string{"PATH=" + engine.SearchPath(c.env)}
	p, err := process.Start(c.log(), environ, c.program(), "--config", c.path("config.toml"), "--log-level", "warn")
	if err != nil {
		return fmt.Errorf("containerd: %w", err)
	}
	c.process = p
	err = AwaitCRI(ctx, p, c.Endpoint())
	if err == nil {
		err = c.importSandboxImage(ctx)
	}
	if err != nil {
		c.Kill()
		return fmt.Errorf("containerd: %w", err)
	}
	return nil
}

// program is the containerd beside the rig's dockerd, or else the installed one.
func (c *Containerd) program() string {
	beside := filepath.Join(filepath.Dir(c.env.Dockerd), "containerd")
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	return "containerd"
}

// importSandboxImage gives containerd the sandbox image that is built into criadapter.
func (c *Containerd) importSandboxImage(ctx context.Context) error {
	if c.imported {
		return nil
	}
	path := c.path("pause.tar")
	archive, err := pause.Archive(runtime.GOARCH)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, "ctr", "--address", c.path("c.sock"), "--namespace", "k8s.io", "images",
		"import", path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ctr images import: %w\n%s", err, output)
	}
	c.imported = true
	return nil
}

// KillContainer kills a container or sandbox by its process, which works whether containerd runs or not.
func (c *Containerd) KillContainer(id string) error {
	text, err := os.ReadFile(filepath.Join(c.path("state"), "io.containerd.runtime.v2.task", "k8s.io", id, "init.pid"))
	if err != nil {
		return fmt.Errorf("the process of container %s: %w", id, err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("the process of container %s: %w", id, err)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// Running says whether containerd was started, and neither stopped nor killed since.
func (c *Containerd) Running() bool { return c.process != nil }

// PID is the process id of containerd, which must run.
func (c *Containerd) PID() int { return c.process.PID() }

// Ended is closed when the running containerd has ended.
func (c *Containerd) Ended() <-chan struct{} { return c.process.Ended() }

// Stop ends containerd gracefully. Containers live on.
func (c *Containerd) Stop(ctx context.Context) error {
	if c.process == nil {
		return nil
	}
	err := c.process.Stop(ctx)
	c.process = nil
	return err
}

// Kill ends containerd as a crash does. Containers live on.
func (c *Containerd) Kill() {
	if c.process != nil {
		c.process.Kill()
		c.process = nil
	}
}

// LogTail is the end of the log of all starts, or the reason why it cannot be read.
func (c *Containerd) LogTail() string { return logtail.Read(c.log(), 8<<10) }

// Close stops containerd and removes its network. The caller must have removed the pods. The directory stays.
func (c *Containerd) Close(ctx context.Context) error {
	return errors.Join(c.Stop(ctx), c.network.Remove())
}
