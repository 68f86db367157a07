package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/test/netdevice"
	"github.com/criadapter/criadapter/test/process"
	"github.com/criadapter/criadapter/test/rig/cniplugins"
	"github.com/criadapter/criadapter/test/rig/images"
)

const (
	// exampleImage is the image of examples/pod.yaml.
	exampleImage = "criadapter.local/hello:1"
	bridge       = "criadapter-run"
	subnet       = "10.87.0.0/24"
	// startTimeout bounds the time until the server answers.
	startTimeout = 30 * time.Second
)

// node is a running criadapter with its files and its pod network.
type node struct {
	dir    string
	server *process.Process
}

// startNode makes the directory, the example's image, the plugins and the pod
// network's configuration, and starts the server.
func startNode(ctx context.Context, opts options) (_ *node, err error) {
	if err := loadImage(ctx, opts.docker); err != nil {
		return nil, err
	}
	step("Building the CNI plugins, unless they are cached")
	plugins, err := cniplugins.Build(ctx, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	if err := images.Packages(ctx, images.Tool{Program: "iptables", Package: "iptables"}); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "criadapter-run-")
	if err != nil {
		return nil, err
	}
	n := &node{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.clean())
		}
	}()
	if err := os.Chmod(dir, 0o711); err != nil { // containers mount files below it
		return nil, err
	}
	if err := n.writeNetwork(); err != nil {
		return nil, err
	}
	return n, n.start(opts, plugins)
}

// loadImage makes the example's image and gives it to the engine.
func loadImage(ctx context.Context, endpoint string) error {
	step("Making the image %s", exampleImage)
	image, err := images.Hello(ctx, runtime.GOARCH)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(exampleImage)
	if err != nil {
		return err
	}
	engine, err := docker.Dial(docker.Options{Host: endpoint})
	if err != nil {
		return err
	}
	defer engine.Close()
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(tarball.Write(tag, image, writer)) }()
	err = engine.LoadImage(ctx, reader)
	reader.Close() // ends the writer if the engine stops reading
	if err != nil {
		return fmt.Errorf("giving the image to the engine: %w", err)
	}
	return nil
}

// writeNetwork writes the pod network: a bridge of our own with masquerading.
func (n *node) writeNetwork() error {
	network := netdevice.Network{Name: "criadapter-run", Bridge: bridge, Subnet: subnet, Masquerade: true}
	// Docker drops forwarded packets unless a rule accepts them.
	config, err := network.Conflist(filepath.Join(n.dir, "ipam"), "firewall")
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(n.dir, "net.d"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.dir, "net.d", "10-run.conflist"), config, 0o644)
}

func (n *node) start(opts options, plugins string) error {
	step("Starting %s on %s", opts.server, n.socket())
	cmd := exec.Command(opts.server,
		"--container-runtime-endpoint=unix://"+n.socket(),
		"--docker-endpoint="+opts.docker,
		"--root-directory="+filepath.Join(n.dir, "state"),
		"--cni-conf-dir="+filepath.Join(n.dir, "net.d"),
		"--cni-bin-dir="+plugins,
	)
	// An interrupt at the terminal must not reach the server, which ends after the pod.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	var err error
	if n.server, err = process.Run(n.serverLog(), cmd); err != nil {
		return fmt.Errorf("starting the server (make build makes it): %w", err)
	}
	return nil
}

func (n *node) socket() string    { return filepath.Join(n.dir, "criadapter.sock") }
func (n *node) logs() string      { return filepath.Join(n.dir, "logs") }
func (n *node) serverLog() string { return filepath.Join(n.dir, "server.log") }

// kubelet starts the kubelet core on the server, or says why the server ended.
func (n *node) kubelet(ctx context.Context) (*kubeletCore, error) {
	attempt, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	go func() {
		select {
		case <-n.server.Ended():
			cancel()
		case <-attempt.Done():
		}
	}()
	k, err := startKubelet(attempt, n)
	if err == nil {
		return k, nil
	}
	log, _ := os.ReadFile(n.serverLog()) // only for the text of the error
	return nil, fmt.Errorf("%w\nthe server says:\n%s", err, log)
}

// explain prints how to reach the node with other clients.
func (n *node) explain(k *kubeletCore) {
	fmt.Printf(`
criadapter serves on unix://%[1]s, and the kubelet core runs the manifests in %[2]s:
add, edit and remove files there.
  build/kubelet-core get pods --read-address %[3]s
  crictl  --runtime-endpoint unix://%[1]s pods
  docker  ps --filter label=%[4]s=%[5]s
Their own logs are %[6]s and kubelet.log beside it.
Press Ctrl-C to remove the pods and stop.
`, n.socket(), k.manifests, k.ReadAddress(), model.LabelOwner, nodeName, n.serverLog())
}

// wait returns when ctx ends. If the server ends first, it returns an error.
func (n *node) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		fmt.Println()
		return nil
	case <-n.server.Ended():
		return fmt.Errorf("the server ended: %w", n.server.Failure())
	}
}

// stop ends the server, and removes the network and the directory.
func (n *node) stop(ctx context.Context) error {
	if err := n.server.Stop(ctx); err != nil {
		return errors.Join(err, n.clean())
	}
	step("The server has ended")
	return n.clean()
}

// clean removes the directory, and the bridge that the CNI plugin has left.
func (n *node) clean() error {
	if err := netdevice.RemoveBridge(bridge); err != nil {
		return err
	}
	// The kernel may not have removed the detached mounts of the last container yet.
	for try := 0; ; try++ {
		if err := os.RemoveAll(n.dir); err == nil || try == 10 {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
