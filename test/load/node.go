package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/criadapter/criadapter/kubelet/apiserver/connect"
	"github.com/criadapter/criadapter/test/cluster/single"
)

const (
	// patience bounds each wait for pods.
	patience = 8 * time.Minute
	// calm bounds the wait for the number of pods that a phase begins with.
	calm = time.Minute
)

// node is a cluster and its measurements.
type node struct {
	*single.Cluster
	opts  options
	crowd *crowd
	parts *parts
	// plain is a pod that serves HTTP and writes two lines a second; probed has an exec probe.
	plain, probed v1.PodSpec
}

// measure runs one server's node, and calls tell after each phase. A phase that does not finish is part of the figures.
func measure(ctx context.Context, on single.Options, opts options, tell func(string, measured)) (f figures, err error) {
	cluster, err := single.Start(ctx, on)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	n := node{Cluster: cluster, opts: opts, plain: plainPod(on.Env.Image("test/hello:latest")),
		probed: probedPod(on.Env.Image("test/busybox:latest"), opts.probePlan())}
	if err := n.prepare(ctx, on); err != nil {
		return f, err
	}
	defer n.crowd.close()
	f = figures{Phases: make(map[string]measured)}
	if f.Runtime, err = n.runtime(ctx); err != nil {
		return f, err
	}
	for _, p := range n.phases() {
		one, err := n.attempt(ctx, p)
		if err != nil {
			return f, err
		}
		tell(p.name, one)
		f.Phases[p.name] = one
	}
	return f, nil
}

// prepare makes the namespace and its watch, and finds the processes. One pod of each kind comes and goes first, which
// brings the images, makes the network's bridge and warms caches.
func (n *node) prepare(ctx context.Context, on single.Options) error {
	if err := n.MakeNamespace(ctx, namespace); err != nil {
		return err
	}
	clients, err := connect.Connect(n.Plane.Admin, "load")
	if err != nil {
		return err
	}
	if n.parts, err = findParts(n.Cluster, on.Env); err != nil {
		return err
	}
	if n.crowd, err = newCrowd(ctx, clients.Core.Pods(namespace), clients.Watch.Pods(namespace)); err != nil {
		return err
	}
	for _, spec := range []v1.PodSpec{n.plain, n.probed} {
		if err := errors.Join(n.fill(ctx, 1, spec), n.empty(ctx)); err != nil {
			n.crowd.close()
			return fmt.Errorf("the first pods: %w", err)
		}
	}
	return nil
}

// runtime is the runtime's name and version in the node's status.
func (n *node) runtime(ctx context.Context) (string, error) {
	version, err := n.Plane.Kubectl(ctx, "get", "nodes", "-o",
		"jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}")
	name, number, _ := strings.Cut(version, "://")
	return name + " " + number, err
}

// fill makes pods and waits until all are Ready.
func (n *node) fill(ctx context.Context, pods int, spec v1.PodSpec) error {
	if err := n.crowd.create(ctx, pods, spec); err != nil {
		return err
	}
	return n.crowd.await(ctx, patience, func(t tally) error { return t.settled(pods) })
}

// empty deletes all pods and waits until they are gone.
func (n *node) empty(ctx context.Context) error {
	if err := n.crowd.removeAll(ctx); err != nil {
		return err
	}
	return n.crowd.await(ctx, patience, func(t tally) error { return t.settled(0) })
}

func plainPod(image string) v1.PodSpec {
	return v1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(1)),
		Containers: []v1.Container{
			{Name: "main", Image: image, ImagePullPolicy: v1.PullIfNotPresent}},
	}
}
