package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/rig/adapter"
)

// clock gets the duration of each call.
type clock func(call string, took time.Duration)

// The calls of a pod's life, and the two sums.
const (
	callRun             = "RunPodSandbox"
	callCreate          = "CreateContainer"
	callStart           = "StartContainer"
	callExec            = "ExecSync true"
	callPodStatus       = "PodSandboxStatus"
	callContainerStatus = "ContainerStatus"
	callStop            = "StopContainer"
	callRemove          = "RemoveContainer"
	callStopPod         = "StopPodSandbox"
	callRemovePod       = "RemovePodSandbox"
	sumUp               = "pod up"
	sumDown             = "pod down"
)

// timed calls f, gives its duration to the clock and adds it to each sum.
func (c clock) timed(call string, f func() error, sums ...*time.Duration) error {
	began := time.Now()
	err := f()
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	c(call, took)
	for _, sum := range sums {
		*sum += took
	}
	return nil
}

// noClock measures nothing.
func noClock(string, time.Duration) {}

// pod is a pod with its containers on a server.
type pod struct {
	config     *runtimeapi.PodSandboxConfig
	id         string
	containers []string
}

func (b *bench) podConfig(owner, name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "bench", Uid: "uid-" + name},
		Hostname:     "bench",
		LogDirectory: filepath.Join(b.dir, "logs", owner, name),
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"svc.cluster.local"}},
		Labels:       map[string]string{"app": name},
		Annotations:  map[string]string{"kubernetes.io/config.source": "api"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    b.cgroup + "/" + owner + "/" + name,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces()},
		},
	}
}

func containerConfig(name, image string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: image},
		Command:  []string{"sleep", "1000000"},
		Labels:   map[string]string{"io.kubernetes.container.name": name},
		LogPath:  name + ".log",
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       &runtimeapi.LinuxContainerResources{CpuShares: 2},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces()},
		},
	}
}

// namespaces returns the namespaces that a kubelet asks for.
func namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}
}

// up runs a pod with one container.
func (s *criServer) up(ctx context.Context, name string, tell clock) (*pod, error) {
	var sum time.Duration
	p := &pod{config: s.bench.podConfig(s.name, name)}
	// A kubelet makes this directory.
	if err := os.MkdirAll(p.config.LogDirectory, 0o755); err != nil {
		return nil, err
	}
	err := tell.timed(callRun, func() error {
		response, err := s.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: p.config})
		p.id = response.GetPodSandboxId()
		return err
	}, &sum)
	if err != nil {
		return nil, err
	}
	if err := s.addContainer(ctx, p, "main", tell, &sum); err != nil {
		return nil, errors.Join(err, s.down(ctx, p, noClock))
	}
	tell(sumUp, sum)
	return p, nil
}

func (s *criServer) addContainer(ctx context.Context, p *pod, name string, tell clock, sums ...*time.Duration) error {
	return s.startContainer(ctx, p, containerConfig(name, s.imageRef), tell, sums...)
}

func (s *criServer) startContainer(
	ctx context.Context, p *pod, config *runtimeapi.ContainerConfig, tell clock, sums ...*time.Duration,
) error {
	err := tell.timed(callCreate, func() error {
		response, err := s.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: p.id, Config: config, SandboxConfig: p.config,
		})
		if err == nil {
			p.containers = append(p.containers, response.GetContainerId())
		}
		return err
	}, sums...)
	if err != nil {
		return err
	}
	return tell.timed(callStart, func() error {
		_, err := s.runtime.StartContainer(ctx,
			&runtimeapi.StartContainerRequest{ContainerId: p.containers[len(p.containers)-1]})
		return err
	}, sums...)
}

// use runs a command in a running pod, asks for its statuses and checks its network.
func (s *criServer) use(ctx context.Context, p *pod, tell clock) error {
	if err := tell.timed(callExec, func() error { return s.execTrue(ctx, p.containers[0]) }); err != nil {
		return err
	}
	if err := tell.timed(callContainerStatus, func() error {
		_, err := s.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: p.containers[0]})
		return err
	}); err != nil {
		return err
	}
	var ip string
	if err := tell.timed(callPodStatus, func() error {
		response, err := s.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: p.id})
		ip = response.GetStatus().GetNetwork().GetIp()
		return err
	}); err != nil {
		return err
	}
	return adapter.Answers(ip)
}

// down ends a pod as the kubelet does, container by container.
func (s *criServer) down(ctx context.Context, p *pod, tell clock) error {
	var sum time.Duration
	for _, id := range p.containers {
		if err := tell.timed(callStop, func() error {
			_, err := s.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id})
			return err
		}, &sum); err != nil {
			return err
		}
	}
	if err := tell.timed(callStopPod, func() error {
		_, err := s.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id})
		return err
	}, &sum); err != nil {
		return err
	}
	for _, id := range p.containers {
		if err := tell.timed(callRemove, func() error {
			_, err := s.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
			return err
		}, &sum); err != nil {
			return err
		}
	}
	if err := tell.timed(callRemovePod, func() error {
		_, err := s.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
		return err
	}, &sum); err != nil {
		return err
	}
	tell(sumDown, sum)
	return nil
}

// remove removes a pod in the fewest calls.
func (s *criServer) remove(ctx context.Context, p *pod) error {
	if _, err := s.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.id}); err != nil {
		return err
	}
	_, err := s.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.id})
	return err
}

// cycle takes a pod through its life.
func (s *criServer) cycle(ctx context.Context, name string, tell clock) error {
	p, err := s.up(ctx, name, tell)
	if err != nil {
		return err
	}
	if err := s.use(ctx, p, tell); err != nil {
		return errors.Join(err, s.down(ctx, p, noClock))
	}
	return s.down(ctx, p, tell)
}
