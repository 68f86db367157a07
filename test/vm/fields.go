package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/test/vm/node"
)

// criClient calls the server on the machine.
type criClient struct {
	suite *suite
	runtimeapi.RuntimeServiceClient
	pods int
}

// fields tries CRI fields that `make test` cannot try, because the kernels of its machines lack what the fields need.
func (s *suite) fields(ctx context.Context) (err error) {
	features, _, err := node.Features(ctx, s.machine)
	if err != nil {
		return err
	}
	client, hangUp, err := s.prepareFields(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, hangUp()) }()
	cases := []struct {
		name string
		try  func(context.Context) error
	}{
		{"unified keys", client.unified}, {"a negative out-of-memory score", client.oomScore},
		{"an out-of-memory kill", client.oomKill}, {"CDI devices", client.cdi},
		{"CheckpointContainer", client.checkpointContainer}, {"CheckpointPod and RestorePod", client.restorePod},
	}
	var errs []error
	for _, c := range cases {
		if c.name == "CDI devices" && !features.Supports("1.44") {
			fmt.Println("left out: CDI devices, which this engine does not know")
			continue
		}
		began := time.Now()
		if err := c.try(ctx); err != nil {
			fmt.Printf("FAIL %s: %v\n", c.name, err)
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
			continue
		}
		fmt.Printf("ok   %s (%s)\n", c.name, time.Since(began).Round(time.Second))
	}
	return errors.Join(errs...)
}

// cdiSpec has a device of CDI.
const cdiSpec = `{"cdiVersion": "0.6.0", "kind": "criadapter.local/device", "devices": [
	{"name": "one", "containerEdits": {"env": ["CDI_DEVICE=one"],
		"deviceNodes": [{"path": "/dev/cdi", "hostPath": "/dev/null"}]}}]}`

// prepareFields gives the engine what the fields need, and connects to the server.
func (s *suite) prepareFields(ctx context.Context) (_ *criClient, hangUp func() error, err error) {
	// daemon.json has settings already, so sed adds to them. The machine has no program that edits JSON.
	if _, err := s.machine.Shell(ctx, `
		docker load --quiet --input /mnt/shell.tar
		sed -i 's/^{/{"experimental": true,/; s/true,}/true}/' /etc/docker/daemon.json
		mkdir -p /etc/cdi
		echo '`+cdiSpec+`' > /etc/cdi/criadapter.json
		systemctl restart docker criadapter`); err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(s.dir, "cri.sock")
	if err := s.machine.ReachSocket(ctx, socket, strings.TrimPrefix(criSocket, "unix://")); err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	client := &criClient{suite: s, RuntimeServiceClient: runtimeapi.NewRuntimeServiceClient(conn)}
	return client, conn.Close, s.eventually(ctx, func() error {
		_, err := client.Status(ctx, &runtimeapi.StatusRequest{})
		return err
	})
}

// namespaces are the host's network, and a PID namespace for each container.
func namespaces() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}
}

// pod is the configuration of a new pod on the host's network.
func (c *criClient) pod() *runtimeapi.PodSandboxConfig {
	c.pods++
	name := "fields" + strconv.Itoa(c.pods)
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    "system.slice",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: namespaces()},
		},
	}
}

// container is the configuration of a container that runs a shell line.
func container(line string, resources *runtimeapi.LinuxContainerResources) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: node.ShellImage}, Command: []string{"sh", "-c", line},
		Linux: &runtimeapi.LinuxContainerConfig{Resources: resources,
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: namespaces()}},
	}
}

// run starts a container in a new pod, calls with, and removes the pod. with gets the ids of the pod and the container.
func (c *criClient) run(
	ctx context.Context, config *runtimeapi.ContainerConfig, with func(sandbox, id string) error,
) (err error) {
	pod := c.pod()
	made, err := c.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: pod})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.remove(ctx, made.PodSandboxId)) }()
	created, err := c.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: made.PodSandboxId, Config: config, SandboxConfig: pod})
	if err != nil {
		return err
	}
	if err := c.start(ctx, created.ContainerId); err != nil {
		return err
	}
	return with(made.PodSandboxId, created.ContainerId)
}

func (c *criClient) start(ctx context.Context, id string) error {
	_, err := c.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

func (c *criClient) remove(ctx context.Context, sandbox string) error {
	_, err := c.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: sandbox})
	return err
}

// prints fails unless a command in a container prints these words.
func (c *criClient) prints(ctx context.Context, id, command, want string) error {
	answer, err := c.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"sh", "-c", command}})
	if err != nil {
		return err
	}
	if got := strings.Join(strings.Fields(string(answer.Stdout)), " "); got != want {
		return fmt.Errorf("%s prints %q, want %q; %s", command, got, want, answer.Stderr)
	}
	return nil
}

// running runs a container and checks what a command in it prints.
func (c *criClient) running(ctx context.Context, config *runtimeapi.ContainerConfig, command, want string) error {
	return c.run(ctx, config, func(_, id string) error {
		return c.prints(ctx, id, command, want)
	})
}

const wait = "sleep 86400"

func (c *criClient) unified(ctx context.Context) error {
	keys := map[string]string{"memory.high": "67108864", "memory.oom.group": "1", "pids.max": "77"}
	config := container(wait, &runtimeapi.LinuxContainerResources{Unified: keys})
	return c.running(ctx, config, "cd /sys/fs/cgroup; cat memory.high memory.oom.group pids.max", "67108864 1 77")
}

func (c *criClient) oomScore(ctx context.Context) error {
	config := container(wait, &runtimeapi.LinuxContainerResources{OomScoreAdj: -997})
	return c.running(ctx, config, "cat /proc/1/oom_score_adj", "-997")
}

// oomKills is the number of containers that the kernel must kill for memory. One is not enough, because the engine
// misses only some of these kills.
const oomKills = 8

func (c *criClient) oomKill(ctx context.Context) error {
	limits := &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 15 << 20, MemorySwapLimitInBytes: 15 << 20}
	config := container("sleep 1 && dd if=/dev/zero of=/dev/null bs=20M", limits)
	for range oomKills {
		if err := c.run(ctx, config, func(_, id string) error {
			return c.suite.eventually(ctx, func() error {
				answer, err := c.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
				if err != nil {
					return err
				}
				if status := answer.Status; status.Reason != "OOMKilled" || status.ExitCode != 137 {
					return fmt.Errorf("the container is %s with %d, %q", status.State, status.ExitCode, status.Reason)
				}
				return nil
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *criClient) cdi(ctx context.Context) error {
	config := container(wait, nil)
	config.CDIDevices = []*runtimeapi.CDIDevice{{Name: "criadapter.local/device=one"}}
	return c.running(ctx, config, "echo $CDI_DEVICE; test -c /dev/cdi && echo there", "one there")
}

// counting is a shell line that counts in its memory, and shows the count in a file.
const counting = "count=0; while :; do count=$((count + 1)); echo $count > /count; sleep 1; done"

// count returns the number in the container's file.
func (c *criClient) count(ctx context.Context, id string) (int, error) {
	answer, err := c.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"cat", "/count"}})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(answer.Stdout)))
}

// awaitCount waits until a container has counted further than a number, and returns the count.
func (c *criClient) awaitCount(ctx context.Context, id string, beyond int) (count int, err error) {
	err = c.suite.eventually(ctx, func() error {
		if count, err = c.count(ctx, id); err == nil && count <= beyond {
			err = fmt.Errorf("the container has counted to %d, want more than %d", count, beyond)
		}
		return err
	})
	return count, err
}

func (c *criClient) checkpointContainer(ctx context.Context) error {
	return c.run(ctx, container(counting, nil), func(_, id string) error {
		if _, err := c.awaitCount(ctx, id, 2); err != nil {
			return err
		}
		const archive = "/root/checkpoint.tar"
		if _, err := c.CheckpointContainer(ctx,
			&runtimeapi.CheckpointContainerRequest{ContainerId: id, Location: archive}); err != nil {
			return err
		}
		listed, err := c.suite.machine.Run(ctx, "tar", "--list", "--file", archive)
		if err != nil {
			return err
		}
		for _, file := range []string{"checkpoint/inventory.img", "config.dump", "spec.dump"} {
			if !strings.Contains(listed, file) {
				return fmt.Errorf("%s has no file %s:\n%s", archive, file, listed)
			}
		}
		count, err := c.count(ctx, id)
		if err != nil {
			return err
		}
		_, err = c.awaitCount(ctx, id, count) // it runs on
		return err
	})
}

// restorePod removes a pod after its checkpoint. The restored container must continue its count.
func (c *criClient) restorePod(ctx context.Context) (err error) {
	const dir = "/root/pod-checkpoint"
	if _, err := c.suite.machine.Run(ctx, "mkdir", dir); err != nil {
		return err
	}
	config, count := container(counting, nil), 0
	err = c.run(ctx, config, func(sandbox, id string) (err error) {
		if count, err = c.awaitCount(ctx, id, 5); err != nil {
			return err
		}
		_, err = c.CheckpointPod(ctx, &runtimeapi.CheckpointPodRequest{
			PodSandboxId: sandbox, OutputPath: dir, ContainerIds: []string{id}})
		return err
	})
	if err != nil {
		return err
	}
	restored, err := c.RestorePod(ctx, &runtimeapi.RestorePodRequest{
		CheckpointPath: dir, Config: c.pod(), ContainerConfigs: []*runtimeapi.ContainerConfig{config}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.remove(ctx, restored.PodSandboxId)) }()
	if len(restored.RestoredContainers) != 1 {
		return fmt.Errorf("restored %v, want one container", restored.RestoredContainers)
	}
	id := restored.RestoredContainers[0].ContainerId
	if err := c.start(ctx, id); err != nil {
		return err
	}
	now, err := c.awaitCount(ctx, id, count)
	if err == nil && now > count+60 {
		err = fmt.Errorf("the count went from %d to %d", count, now)
	}
	return err
}
