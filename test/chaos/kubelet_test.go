package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/cgroups"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// kubelet is a model of a kubelet with a single pod. In memory it has only the wanted pod and the ids of the last
// answers. It asks for everything else, as a kubelet does after a restart.
type kubelet struct {
	server *adapter.Server
	// pod and containers are the wanted configurations, without attempts.
	pod        *runtimeapi.PodSandboxConfig
	containers []*runtimeapi.ContainerConfig
	// lastPod and lastContainer are the ids of the pod and the container in the last answers.
	lastPod, lastContainer string
	// runs says that the last answers showed lastContainer as running.
	runs bool
	// looks says that the model also calls look for each pod.
	looks bool
	// heals says that the model repairs an engine's own faults as a real kubelet does. The model kills the
	// processes left in a pod's cgroup. It stops a container in which a command failed, as after a failed liveness
	// probe.
	heals bool
}

// broken is the failure of a pod whose container or sandbox has ended, or lost its output.
type broken struct{ error }

func (b broken) Unwrap() error { return b.error }

// patience bounds each sync, check and removal of a pod, and each wait for a condition.
const patience = testutil.Patience

// newKubelet wants a pod with an address, a host port, a cgroup of its own below the rig's, and one container. Nothing
// else on the engine has its name.
func newKubelet(server *adapter.Server, env rigenv.Env, base string, port int32) *kubelet {
	name := rigenv.Unique(base)
	k := &kubelet{server: server, pod: &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "chaos", Uid: "uid-" + name},
		Hostname:     name,
		LogDirectory: filepath.Join(server.Dir, "logs", name),
		PortMappings: []*runtimeapi.PortMapping{{HostPort: port, ContainerPort: 80}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/" + filepath.Join(env.Cgroup(), "chaos-"+filepath.Base(server.Dir), name),
			Resources:    &runtimeapi.LinuxContainerResources{CpuShares: 512, MemoryLimitInBytes: 256 << 20},
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}}
	k.containers = []*runtimeapi.ContainerConfig{{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: env.Image("test/busybox:latest")},
		// The container ends at once on SIGTERM.
		Command: []string{"sh", "-c", "trap 'exit 0' TERM; echo started; sleep 100000 & wait"},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 100, OomScoreAdj: 100},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: k.pod.GetLinux().GetSecurityContext().GetNamespaceOptions()},
		},
	}}
	return k
}

func (k *kubelet) runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(namedConn{k.server.Conn})
}

func (k *kubelet) images() runtimeapi.ImageServiceClient {
	return runtimeapi.NewImageServiceClient(namedConn{k.server.Conn})
}

// namedConn is a connection whose errors have the name of the request. A bare deadline does not say which request hung.
type namedConn struct{ grpc.ClientConnInterface }

func (n namedConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	err := n.ClientConnInterface.Invoke(ctx, method, args, reply, options...)
	if err != nil {
		err = fmt.Errorf("%s: %w", path.Base(method), err)
	}
	return err
}

// sandboxes lists the sandboxes of the pod, the newest first.
func (k *kubelet) sandboxes(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	answer, err := k.runtime().ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	var own []*runtimeapi.PodSandbox
	for _, sandbox := range answer.GetItems() {
		if sandbox.GetMetadata().GetUid() == k.pod.GetMetadata().GetUid() {
			own = append(own, sandbox)
		}
	}
	return newestFirst(own, func(s *runtimeapi.PodSandbox) uint32 { return s.GetMetadata().GetAttempt() }), err
}

// in lists the attempts of a container in a sandbox, the newest first. With an empty name it lists all containers of
// the sandbox.
func (k *kubelet) in(ctx context.Context, sandboxID, name string) ([]*runtimeapi.Container, error) {
	answer, err := k.runtime().ListContainers(ctx,
		&runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: sandboxID}})
	var own []*runtimeapi.Container
	for _, c := range answer.GetContainers() {
		if name == "" || c.GetMetadata().GetName() == name {
			own = append(own, c)
		}
	}
	return newestFirst(own, func(c *runtimeapi.Container) uint32 { return c.GetMetadata().GetAttempt() }), err
}

func newestFirst[T any](list []T, attempt func(T) uint32) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(attempt(b), attempt(a)) })
	return list
}

// sync does the next steps towards the wanted pod. It reports whether there was nothing to do.
func (k *kubelet) sync(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandboxes, err := k.sandboxes(ctx)
	if err != nil {
		return false, err
	}
	if len(sandboxes) == 0 || sandboxes[0].GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return false, k.replace(ctx, sandboxes)
	}
	for _, old := range sandboxes[1:] {
		if err := k.drop(ctx, old.GetId()); err != nil {
			return false, err
		}
	}
	k.lastPod = sandboxes[0].GetId()
	done = len(sandboxes) == 1
	for _, wanted := range k.containers {
		was, err := k.syncContainer(ctx, wanted)
		if err != nil {
			return false, err
		}
		done = done && was
	}
	return done, nil
}

// replace stops the pod's sandboxes and runs its next attempt.
func (k *kubelet) replace(ctx context.Context, sandboxes []*runtimeapi.PodSandbox) error {
	attempt := uint32(0)
	for _, old := range sandboxes {
		attempt = max(attempt, old.GetMetadata().GetAttempt()+1)
		if _, err := k.runtime().StopPodSandbox(ctx,
			&runtimeapi.StopPodSandboxRequest{PodSandboxId: old.GetId()}); err != nil {
			return err
		}
	}
	return k.run(ctx, attempt)
}

func (k *kubelet) run(ctx context.Context, attempt uint32) error {
	config := proto.CloneOf(k.pod)
	config.Metadata.Attempt = attempt
	answer, err := k.runtime().RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	k.lastPod = answer.GetPodSandboxId()
	return err
}

// syncContainer runs a container that does not run, and removes its earlier attempts.
func (k *kubelet) syncContainer(ctx context.Context, wanted *runtimeapi.ContainerConfig) (done bool, err error) {
	there, err := k.in(ctx, k.lastPod, wanted.GetMetadata().GetName())
	if err != nil {
		return false, err
	}
	if len(there) > 0 && there[0].GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		for _, old := range there[1:] {
			if _, err := k.runtime().RemoveContainer(ctx,
				&runtimeapi.RemoveContainerRequest{ContainerId: old.GetId()}); err != nil {
				return false, err
			}
		}
		k.lastContainer, k.runs = there[0].GetId(), true
		return len(there) == 1, k.removeOldLogs(there[0].GetMetadata())
	}
	attempt := uint32(0)
	if len(there) > 0 {
		attempt = there[0].GetMetadata().GetAttempt() + 1
	}
	if err := k.create(ctx, wanted, attempt); err != nil {
		return false, err
	}
	return false, k.start(ctx)
}

// removeOldLogs removes the logs of a container's earlier attempts, because a CRI server leaves them to the kubelet.
func (k *kubelet) removeOldLogs(now *runtimeapi.ContainerMetadata) error {
	logs, err := filepath.Glob(filepath.Join(k.pod.GetLogDirectory(), now.GetName(), "*.log*"))
	for _, log := range logs {
		if !strings.HasPrefix(filepath.Base(log), fmt.Sprintf("%d.log", now.GetAttempt())) {
			err = errors.Join(err, os.Remove(log))
		}
	}
	return err
}

func (k *kubelet) create(ctx context.Context, wanted *runtimeapi.ContainerConfig, attempt uint32) error {
	config := proto.CloneOf(wanted)
	config.Metadata.Attempt = attempt
	config.LogPath = fmt.Sprintf("%s/%d.log", config.GetMetadata().GetName(), attempt)
	answer, err := k.runtime().CreateContainer(ctx,
		&runtimeapi.CreateContainerRequest{PodSandboxId: k.lastPod, Config: config, SandboxConfig: k.pod})
	k.lastContainer, k.runs = answer.GetContainerId(), false
	return err
}

func (k *kubelet) start(ctx context.Context) error {
	_, err := k.runtime().StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: k.lastContainer})
	k.runs = err == nil
	return err
}

func (k *kubelet) drop(ctx context.Context, id string) error {
	if _, err := k.runtime().StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	_, err := k.runtime().RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// bring syncs until there is nothing to do, and checks that the pod works.
func (k *kubelet) bring(ctx context.Context) error {
	// Each round takes one step: make the sandbox, make the container, restart an ended container, or remove its
	// earlier attempt. The last round finds nothing to do.
	const rounds = 5
	for range rounds {
		done, err := k.sync(ctx)
		if err != nil {
			return err
		}
		if done {
			return k.works(ctx)
		}
	}
	containers, err := k.in(ctx, k.lastPod, "")
	return broken{
		fmt.Errorf("the pod is not as it should be after %d rounds of syncing: %v, %v", rounds, containers, err)}
}

// works checks that the pod answers at its address, and that its container runs commands and has a log.
func (k *kubelet) works(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status, err := k.runtime().PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: k.lastPod})
	if err != nil {
		return err
	}
	ip := status.GetStatus().GetNetwork().GetIp()
	if err := adapter.Answers(ip); err != nil {
		return broken{err}
	}
	if len(k.containers) == 0 {
		return nil
	}
	ran, err := k.runtime().ExecSync(ctx, &runtimeapi.ExecSyncRequest{
		ContainerId: k.lastContainer, Cmd: []string{"cat", "/etc/hosts"}, Timeout: int64(patience.Seconds()),
	})
	if err != nil {
		return err
	}
	if ran.GetExitCode() != 0 && k.heals {
		_, err := k.runtime().StopContainer(ctx,
			&runtimeapi.StopContainerRequest{ContainerId: k.lastContainer, Timeout: 5})
		return errors.Join(broken{fmt.Errorf("a command in the container failed: %s", ran.GetStderr())}, err)
	}
	if !strings.Contains(string(ran.GetStdout()), ip) {
		return fmt.Errorf("the container's hosts file does not have the pod's address %s: exit code %d, %s%s", ip,
			ran.GetExitCode(), ran.GetStdout(), ran.GetStderr())
	}
	if k.looks {
		if err := k.look(ctx); err != nil {
			return err
		}
	}
	return k.logged(ctx)
}

// logged waits until the container's output is in its log.
func (k *kubelet) logged(ctx context.Context) error {
	status, err := k.runtime().ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: k.lastContainer})
	if err != nil {
		return err
	}
	path := status.GetStatus().GetLogPath()
	for ; ; time.Sleep(20 * time.Millisecond) {
		names, _ := filepath.Glob(path + "*") // the log and its rotated files
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), "started") {
				return nil
			}
		}
		if ctx.Err() != nil {
			return broken{fmt.Errorf("the container's log %s lacks the container's output", path)}
		}
	}
}

// kill stops and removes the pod's containers and sandboxes. Like a kubelet, it also removes the pod's logs and cgroup.
func (k *kubelet) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandboxes, err := k.sandboxes(ctx)
	if err != nil {
		return err
	}
	for _, sandbox := range sandboxes {
		if err := k.killContainers(ctx, sandbox.GetId()); err != nil {
			return err
		}
		if err := k.drop(ctx, sandbox.GetId()); err != nil {
			return err
		}
	}
	k.lastPod, k.lastContainer, k.runs = "", "", false
	return errors.Join(os.RemoveAll(k.pod.GetLogDirectory()), k.removeCgroup())
}

func (k *kubelet) killContainers(ctx context.Context, sandboxID string) error {
	containers, err := k.in(ctx, sandboxID, "")
	if err != nil {
		return err
	}
	for _, c := range containers {
		if _, err := k.runtime().StopContainer(ctx,
			&runtimeapi.StopContainerRequest{ContainerId: c.GetId(), Timeout: 5}); err != nil {
			return err
		}
		if _, err := k.runtime().RemoveContainer(ctx,
			&runtimeapi.RemoveContainerRequest{ContainerId: c.GetId()}); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes the pod's cgroup, which a kubelet does by itself.
func (k *kubelet) removeCgroup() error {
	var errs []error
	for _, dir := range cgroups.Find(k.pod.GetLinux().GetCgroupParent()) {
		if k.heals {
			killBelow(dir)
		}
		switch err := os.Remove(dir); {
		case err == nil, os.IsNotExist(err):
		case errors.Is(err, syscall.EBUSY): // a process that its engine has forgotten is still there
			errs = append(errs, broken{err})
		default:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// killBelow kills the processes in the child cgroups of a pod's cgroup, and removes the child cgroups.
func killBelow(cgroup string) {
	below, _ := filepath.Glob(filepath.Join(cgroup, "*", "cgroup.procs"))
	for _, file := range below {
		for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			text, err := os.ReadFile(file)
			if err != nil || len(text) == 0 {
				break
			}
			for pid := range strings.FieldsSeq(string(text)) {
				if n, err := strconv.Atoi(pid); err == nil && n > 0 {
					_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended
				}
			}
		}
		_ = os.Remove(filepath.Dir(file)) // after an error, removing the pod's cgroup fails, too
	}
}
