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
	// calm bounds the wait for a node as a phase needs it, which the one before it left so unless it did not finish.
	calm = time.Minute
)

// node is a cluster with what is measured of it.
type node struct {
	*single.Cluster
	opts  options
	crowd *crowd
	parts *parts
	// plain is a pod that serves and writes two lines a second, probed one whose container is looked at by a command.
	plain, probed v1.PodSpec
}

// measure runs one server's node, and tells each phase when it is over. A phase that does not finish is part of the figures.
func measure(ctx context.Context, on single.Options, opts options, tell func(string, measured)) (f figures, err error) {
	cluster, err := single.Start(ctx, on)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	n := node{Cluster: cluster, opts: opts, plain: plainPod(on.Env.Image("test/hello:latest")), probed: probedPod(on.Env.Image("test/busybox:latest"), opts.probePlan())}
	if err := n.prepare(ctx, on); err != nil {
		return f, err
	}
	defer n.crowd.close()
	f = figures{Server: on.Server, Phases: make(map[string]measured)}
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

// prepare makes the namespace and its watch, finds the processes, and has a pod of each kind come and go, with which the
// images, the network's bridge and the caches of all programs come.
func (n *node) prepare(ctx context.Context, on single.Options) error {
	if err := n.namespace(ctx); err != nil {
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

// namespace makes the pods' namespace and waits for what the controllers put into it.
func (n *node) namespace(ctx context.Context) error {
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

// runtime is what the server tells the kubelet that it runs pods on.
func (n *node) runtime(ctx context.Context) (string, error) {
	version, err := n.Kubectl(ctx, "get", "nodes", "-o", "jsonpath={.items[0].status.nodeInfo.containerRuntimeVersion}")
	name, number, _ := strings.Cut(version, "://")
	return name + " " + number, err
}

// fill makes pods and waits until all are Ready.
func (n *node) fill(ctx context.Context, pods int, spec v1.PodSpec) error {
	if err := n.crowd.create(ctx, pods, spec); err != nil {
		return err
	}
	return n.crowd.await(ctx, patience, func(t tally) error { return t.is(pods) })
}

// empty deletes all pods and waits until they are gone.
func (n *node) empty(ctx context.Context) error {
	if err := n.crowd.removeAll(ctx); err != nil {
		return err
	}
	return n.crowd.await(ctx, patience, func(t tally) error { return t.is(0) })
}

func plainPod(image string) v1.PodSpec {
	grace := int64(1)
	return v1.PodSpec{
		TerminationGracePeriodSeconds: &grace,
		Containers:                    []v1.Container{{Name: "main", Image: image, ImagePullPolicy: v1.PullIfNotPresent}},
	}
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
