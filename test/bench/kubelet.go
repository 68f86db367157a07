package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// directoryPods is how many pods come from a directory at once.
const directoryPods = 40

// listPeriod is the kubelet core's default time between two lists.
const listPeriod = time.Second

// Rows of the kubelet core's table.
const (
	rowDirectory = "40 pods Ready"
	rowEvented   = "death to restart, evented"
	rowPolled    = "death to restart, polled"
)

// kubeletTimeout bounds each wait for the kubelet core.
const kubeletTimeout = 3 * time.Minute

// measureKubelet lets the kubelet core run pods from a directory, on criadapter and on containerd.
func (b *bench) measureKubelet(ctx context.Context) error {
	if err := b.measureDirectory(ctx); err != nil {
		return err
	}
	if err := b.measureDeaths(ctx); err != nil {
		return err
	}
	t := &b.result.Kubelet
	b.result.compare(t, nameWithOCI, goal{"oci-kubelet-40-pods-ready-to-containerd", rowDirectory, nameContainerd, 1})
	b.result.compare(t, nameCriadapter, goal{"kubelet-40-pods-ready-to-containerd", rowDirectory, nameContainerd, 1.25})
	evented, polled := t.cells[rowEvented][nameCriadapter].quantile(0.5), t.cells[rowPolled][nameCriadapter].quantile(
		0.5)
	b.result.add("kubelet-restart-polled-to-list-period", float64(polled)/float64(listPeriod), 1)
	b.result.add("kubelet-restart-evented-to-polled", float64(evented)/float64(polled), 0.75)
	return nil
}

// measureDirectory measures the time from the manifests of 40 pods until all are Ready, with the image present.
func (b *bench) measureDirectory(ctx context.Context) (err error) {
	var cores []*core
	defer func() { err = errors.Join(err, closeCores(context.WithoutCancel(ctx), cores)) }()
	for _, s := range b.serversNamed(nameCriadapter, nameWithOCI, nameContainerd) {
		c, err := s.startCore(ctx, "dir", false)
		if err != nil {
			return err
		}
		cores = append(cores, c)
	}
	return turns(b.plan.directories, len(cores), func(round, i int) error {
		c := cores[i]
		took, err := timed(func() error {
			for n := range directoryPods {
				if err := c.write(fmt.Sprintf("many-%d", n)); err != nil {
					return err
				}
			}
			return c.wait(ctx, func() error { return allReady(c.Pods(), directoryPods) })
		})
		if err != nil {
			return err
		}
		b.result.Kubelet.add(rowDirectory, c.server.name, took)
		if round == b.plan.directories-1 {
			return nil // closeCores empties it
		}
		return c.empty(ctx)
	})
}

// measureDeaths measures the time from a container's death to the start of its next attempt, by the runtime's clock.
// The kubelet core notices deaths by the runtime's events or by listing. containerd is listed only, because containerd
// 1.6 has no events.
func (b *bench) measureDeaths(ctx context.Context) (err error) {
	type member struct {
		*core
		row string
	}
	var members []member
	var cores []*core
	defer func() { err = errors.Join(err, closeCores(context.WithoutCancel(ctx), cores)) }()
	for _, of := range []struct{ server, row string }{
		{nameCriadapter, rowEvented}, {nameCriadapter, rowPolled}, {nameContainerd, rowPolled},
	} {
		c, err := b.serversNamed(of.server)[0].startCore(ctx, strings.Fields(of.row)[3], of.row == rowPolled)
		if err != nil {
			return err
		}
		members, cores = append(members, member{c, of.row}), append(cores, c)
		if err := c.write("dying"); err != nil {
			return err
		}
		if err := c.wait(ctx, func() error { return allReady(c.Pods(), 1) }); err != nil {
			return err
		}
	}
	return turns(b.plan.deaths, len(members), func(_, i int) error {
		m := members[i]
		took, err := m.death(ctx)
		if err != nil {
			return err
		}
		b.result.Kubelet.add(m.row, m.server.name, took)
		return nil
	})
}

// death kills the container of the only pod and returns how long no container ran.
func (c *core) death(ctx context.Context) (time.Duration, error) {
	// The death may come at any time between two lists.
	time.Sleep(rand.N(listPeriod))
	before := c.Pods()[0].Status.ContainerStatuses[0]
	if err := c.server.kill(ctx, containerID(before)); err != nil {
		return 0, err
	}
	var after v1.ContainerStatus
	err := c.wait(ctx, func() error {
		if err := allReady(c.Pods(), 1); err != nil {
			return err
		}
		if after = c.Pods()[0].Status.ContainerStatuses[0]; after.RestartCount == before.RestartCount {
			return errors.New("the container was not restarted")
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	ended, err := c.server.status(ctx, containerID(before))
	if err != nil {
		return 0, err
	}
	started, err := c.server.status(ctx, containerID(after))
	return time.Duration(started.GetStartedAt() - ended.GetFinishedAt()), err
}

func (s *criServer) status(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error) {
	response, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	return response.GetStatus(), err
}

// containerID is a container's id without the runtime's name.
func containerID(status v1.ContainerStatus) string {
	_, id, _ := strings.Cut(status.ContainerID, "://")
	return id
}

// allReady fails unless there are this many pods and all are Ready.
func allReady(pods []*v1.Pod, want int) error {
	ready := 0
	for _, pod := range pods {
		if model.Ready(pod) {
			ready++
		}
	}
	if len(pods) != want || ready != want {
		return fmt.Errorf("%d pods, %d of them ready, want %d", len(pods), ready, want)
	}
	return nil
}

// write puts the manifest of a pod with one container into the directory.
func (c *core) write(name string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %q, imagePullPolicy: IfNotPresent, command: [sleep, "1000000"]}]
`, name, c.server.image)
	return os.WriteFile(filepath.Join(c.manifests, name+".yaml"), []byte(text), 0o644)
}

// empty takes all manifests away and waits until neither the kubelet core nor the runtime has anything of the pods.
func (c *core) empty(ctx context.Context) error {
	files, err := filepath.Glob(filepath.Join(c.manifests, "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return c.wait(ctx, func() error {
		if left := len(c.Pods()); left > 0 {
			return fmt.Errorf("the kubelet core has %d pods", left)
		}
		return c.nothingLeft(ctx)
	})
}
