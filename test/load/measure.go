package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/rig/usage"
)

// settle is how long pods are left alone before their rest is measured: the kubelet looks at each again.
const settle = 5 * time.Second

// node is a cluster with what is measured of it.
type node struct {
	*single.Cluster
	opts options
	host string // the engine's address
}

// measure runs one server's node.
func measure(ctx context.Context, on single.Options, opts options) (f figures, err error) {
	cluster, err := single.Start(ctx, on)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	n := node{Cluster: cluster, opts: opts, host: on.Env.DockerHost}
	clients, err := connect.Connect(cluster.Plane.Admin, "load")
	if err != nil {
		return f, err
	}
	if err := n.namespace(ctx); err != nil {
		return f, err
	}
	pods, err := newCrowd(ctx, clients.Core.Pods(namespace), clients.Watch.Pods(namespace), on.Env.Image("test/hello:latest"))
	if err != nil {
		return f, err
	}
	defer pods.close()
	f.Server = on.Server
	for _, phase := range []func(context.Context, *crowd, *figures) error{n.up, n.rest, n.churn, n.gone} {
		if err := phase(ctx, pods, &f); err != nil {
			return f, err
		}
	}
	return f, nil
}

// namespace makes the pods' namespace and waits for what the controllers put into it.
func (n node) namespace(ctx context.Context) error {
	if _, err := n.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	for _, object := range []string{"serviceaccount/default", "configmap/kube-root-ca.crt"} {
		if _, err := n.Kubectl(ctx, "wait", "--namespace", namespace, "--for=create", object, "--timeout=60s"); err != nil {
			return err
		}
	}
	return nil
}

// up brings all pods up.
func (n node) up(ctx context.Context, c *crowd, f *figures) error {
	used, err := n.cpuDuring(func() error {
		if err := c.create(ctx, n.opts.pods); err != nil {
			return err
		}
		return c.await(ctx, c.allReady)
	})
	f.Up, f.UpCPU = c.upTimes(), used
	return err
}

// rest measures a while in which nobody wants anything.
func (n node) rest(ctx context.Context, _ *crowd, f *figures) error {
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	used, err := n.cpuDuring(func() error { return sleep(ctx, n.opts.rest) })
	if err != nil {
		return err
	}
	f.RestCPU = used
	f.Memory, err = n.memory()
	return err
}

// churn replaces pods every second, the oldest first.
func (n node) churn(ctx context.Context, c *crowd, f *figures) error {
	if n.opts.churn == 0 || n.opts.churned == 0 {
		return nil
	}
	c.forget()
	tick := time.NewTicker(time.Second / time.Duration(n.opts.churn))
	defer tick.Stop()
	end := time.After(n.opts.churned)
	used, err := n.cpuDuring(func() error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-end:
				return c.await(ctx, func() error { return errors.Join(c.allReady(), c.onlyLeft(n.opts.pods)) })
			case <-tick.C:
				if err := errors.Join(c.removeOldest(ctx), c.create(ctx, 1)); err != nil {
					return err
				}
			}
		}
	})
	f.Churn, f.ChurnCPU = c.upTimes(), used
	return err
}

// gone deletes all pods.
func (n node) gone(ctx context.Context, c *crowd, f *figures) error {
	c.forget()
	used, err := n.cpuDuring(func() error {
		if err := c.removeAll(ctx); err != nil {
			return err
		}
		return c.await(ctx, func() error { return c.onlyLeft(0) })
	})
	f.Gone, f.GoneCPU = c.goneTimes(), used
	return err
}

// parts are the processes by what they belong to. A containerd is its own engine.
func (n node) parts() (map[string][]int, error) {
	parts := map[string][]int{partServer: {n.Server.PID}, partKubelet: {n.Kubelet().PID()}}
	shims, err := usage.Shims()
	if err != nil {
		return nil, err
	}
	parts[partShims] = shims
	if n.Server.Name == single.Containerd {
		return parts, nil
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(n.host, "unix://")), "pid"))
	if err != nil {
		return nil, err
	}
	dockerd, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	parts[partEngine], err = usage.Engine(dockerd)
	return parts, err
}

// cpuDuring returns the CPU seconds that each part uses while f runs. Shims count where they live all the time.
func (n node) cpuDuring(f func() error) (map[string]float64, error) {
	parts, err := n.parts()
	if err != nil {
		return nil, err
	}
	before := make(map[string]time.Duration)
	for part, pids := range parts {
		if before[part], err = usage.CPUTime(pids); err != nil {
			return nil, err
		}
	}
	if err := f(); err != nil {
		return nil, err
	}
	used := make(map[string]float64)
	for part, pids := range parts {
		after, err := usage.CPUTime(pids)
		if part == partShims && err != nil {
			continue // some ended with their pods
		}
		if err != nil {
			return nil, err
		}
		used[part] = (after - before[part]).Seconds()
	}
	return used, nil
}

// memory returns what each part holds, in MiB: of pages that several share, each has its part.
func (n node) memory() (map[string]float64, error) {
	parts, err := n.parts()
	if err != nil {
		return nil, err
	}
	held := make(map[string]float64)
	for part, pids := range parts {
		kib, err := usage.ProportionalMemory(pids)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part, err)
		}
		held[part] = float64(kib) / 1024
	}
	return held, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
