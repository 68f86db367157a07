// Command run shows criadapter at work. It starts the server on the installed engine, with its own socket, state and
// pod network. The kubelet core runs a pod manifest on it. The server and the kubelet core run until interrupted. Only
// the example's image is left behind.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/criadapter/criadapter/test/program"
)

type options struct {
	once     bool
	manifest string
	server   string
	docker   string
}

func main() {
	var opts options
	flag.BoolVar(&opts.once, "once", false, "remove the pod as soon as it has run, and exit")
	flag.StringVar(&opts.manifest, "f", "examples/pod.yaml", "manifest of the pod")
	flag.StringVar(&opts.server, "server", "build/criadapter", "the criadapter program")
	flag.StringVar(&opts.docker, "docker", "unix:///var/run/docker.sock", "the engine's `address`")
	flag.Parse()

	program.Main("run", func(ctx context.Context) error { return run(ctx, opts) })
}

// cleanUpTime bounds the cleanup at the end.
const cleanUpTime = time.Minute

func run(ctx context.Context, opts options) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("only root can make the network namespaces and cgroups of pods: run this with sudo")
	}
	node, err := startNode(ctx, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanUp(ctx, node.stop)) }()
	core, err := node.kubelet(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanUp(ctx, core.stop)) }()
	pods, err := core.run(ctx, opts.manifest)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := core.show(ctx, pod); err != nil {
			return err
		}
	}
	if opts.once {
		return nil
	}
	node.explain(core)
	return node.wait(ctx)
}

// cleanUp calls stop even after an interrupt.
func cleanUp(ctx context.Context, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	return stop(ctx)
}

// step prints the progress.
func step(format string, args ...any) { fmt.Printf("==> "+format+"\n", args...) }
