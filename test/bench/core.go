package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/criadapter/criadapter/kubelet"
	"github.com/criadapter/criadapter/kubelet/backoff"
	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/housekeeping"
	"github.com/criadapter/criadapter/kubelet/model"
)

// core is the kubelet core in this process, on one of the servers.
type core struct {
	*kubelet.Kubelet
	server          *criServer
	name, manifests string

	cancel context.CancelFunc
	ended  chan struct{}
	err    error // the error of Run; read it only after ended is closed
}

// startCore starts a kubelet core with its defaults, but without a crash back-off and with a quick garbage collection.
// Kubelet cores on one server need different names.
func (s *criServer) startCore(ctx context.Context, name string, noEvents bool) (*core, error) {
	logrus.SetOutput(io.Discard) // failures show in the pods' statuses
	klog.SetLogger(logr.Discard())
	dir := filepath.Join(s.bench.dir, "core", s.name, name)
	c := &core{server: s, name: name, manifests: filepath.Join(dir, "manifests"), ended: make(chan struct{})}
	if err := os.MkdirAll(c.manifests, 0o755); err != nil {
		return nil, err
	}
	var err error
	c.Kubelet, err = kubelet.New(ctx, kubelet.Options{
		RuntimeEndpoint: s.endpoint, NodeName: name, NodeIPs: []string{"127.0.0.1"}, Manifests: c.manifests,
		RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "logs"),
		CgroupRoot:   strings.TrimPrefix(s.bench.cgroup, "/") + "/core/" + s.name + "/" + name,
		CgroupDriver: cgroup.Cgroupfs,
		CrashBackoff: backoff.Options{First: time.Millisecond, Max: time.Millisecond},
		NoEvents:     noEvents, GC: housekeeping.GCOptions{Containers: time.Second, HighPercent: 100},
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // close removes the pods even after ctx has ended
	c.cancel = cancel
	go func() {
		defer close(c.ended)
		c.err = c.Run(running)
	}()
	return c, nil
}

// close removes the pods and ends the kubelet core.
func (c *core) close(ctx context.Context) error {
	err := c.empty(ctx)
	c.cancel()
	<-c.ended
	return errors.Join(err, c.err)
}

// closeCores closes the kubelet cores at the same time.
func closeCores(ctx context.Context, cores []*core) error {
	var group errgroup.Group
	for _, c := range cores {
		group.Go(func() error { return c.close(ctx) })
	}
	return group.Wait()
}

// wait repeats check until it succeeds.
func (c *core) wait(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-c.ended:
			return fmt.Errorf("the kubelet core on %s ended: %w", c.server.name, c.err)
		case <-ctx.Done():
			return fmt.Errorf("the kubelet core on %s: %w", c.server.name, err)
		case <-time.After(pollInterval):
		}
	}
}

// nothingLeft returns an error while the runtime has pods of this kubelet core.
func (c *core) nothingLeft(ctx context.Context) error {
	response, err := c.server.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{model.LabelOwner: c.name}},
	})
	if err != nil {
		return err
	}
	if left := len(response.GetItems()); left > 0 {
		return fmt.Errorf("the runtime has %d pods", left)
	}
	return nil
}
