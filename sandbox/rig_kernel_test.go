package sandbox_test

import (
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestPodWithoutASandboxContainer runs containers in a pod whose namespaces the kernel holds. The pod survives a
// restart of criadapter with --sandbox-container=always.
func TestPodWithoutASandboxContainer(t *testing.T) {
	env := rigenv.Require(t)
	r := newRigOn(t, env, "--sandbox-container=needed", "--oci-runtime=required")
	r.pull(env.Image("test/busybox:latest"))
	config := r.config("web", 3)
	config.Linux.CgroupParent = "/" + env.Cgroup() + "/" + r.namespace
	config.Linux.Sysctls = map[string]string{
		"net.ipv4.ip_unprivileged_port_start": "80", "kernel.shm_rmid_forced": "1", "net.ipv4.conf.eth0.rp_filter": "2",
	}
	config.Linux.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 << 20}
	id := r.runConfig(config, "")
	made := r.containers(t.Context())
	testutil.Require(t, len(made) == 0, "the engine has %v", made)
	first := r.start(id, config, "first")
	r.must(r.server.Stop(t.Context()))
	r.server.SetFlags("--sandbox-container=always")
	r.must(r.server.Start(t.Context()))
	r.wantReady(id)
	second := r.start(id, config, "second")
	made = r.containers(t.Context())
	testutil.Assert(t, len(made) == 2, "the engine has %v, want the two containers", made)
	address := r.status(id).GetNetwork().GetIp()
	for command, want := range map[string]string{
		"hostname; echo $HOSTNAME": "web\nweb",
		"cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced": "80\n1",
		"cat /proc/sys/net/ipv4/conf/eth0/rp_filter":                                         "2",
		"cat /proc/sys/net/ipv4/ping_group_range":                                            "0\t2147483647",
		"grep -c ' /dev/shm tmpfs ' /proc/mounts":                                            "1",
		"tail -n 1 /etc/hosts":                                                               address + "\tweb",
	} {
		testutil.Equal(t, r.exec(second, command), want, "%s", command)
	}
	// They share the network, the host name and /dev/shm.
	r.exec(first, "echo told > /dev/shm/word")
	testutil.Equal(t, r.exec(second, "cat /dev/shm/word"), "told", "the second container reads")
	for _, kind := range []string{"net", "ipc", "uts"} {
		link := "readlink /proc/self/ns/" + kind
		one, other := r.exec(first, link), r.exec(second, link)
		testutil.Assert(t, one == other && one != "", "the namespaces %s are %s and %s", kind, one, other)
	}
	stats, err := r.runtime().PodSandboxStats(t.Context(), &runtimeapi.PodSandboxStatsRequest{PodSandboxId: id})
	r.must(err)
	linux := stats.GetStats().GetLinux()
	testutil.Assert(t, linux.GetNetwork().GetDefaultInterface().GetName() == "eth0" &&
		linux.GetMemory().GetUsageBytes().GetValue() != 0 && len(linux.GetContainers()) == 2, "the stats are %v", linux)
	r.removeLast(id)
}

// start makes a container that waits, in a pod, and starts it.
func (r *rig) start(sandboxID string, pod *runtimeapi.PodSandboxConfig, name string) string {
	r.Helper()
	return r.startConfig(sandboxID, pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: rigenv.Require(r.T).Image("test/busybox:latest")},
		Command:  []string{"sleep", "1000"},
		LogPath:  name + ".log",
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	})
}

func (r *rig) startConfig(
	sandboxID string, pod *runtimeapi.PodSandboxConfig, config *runtimeapi.ContainerConfig,
) string {
	r.Helper()
	created, err := r.runtime().CreateContainer(r.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandboxID, SandboxConfig: pod, Config: config})
	r.must(err)
	_, err = r.runtime().StartContainer(r.Context(),
		&runtimeapi.StartContainerRequest{ContainerId: created.GetContainerId()})
	r.must(err)
	return created.GetContainerId()
}

// exec runs a shell command in a container and returns its output.
func (r *rig) exec(id, command string) string {
	r.Helper()
	response, err := r.runtime().ExecSync(r.Context(),
		&runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"sh", "-c", command}, Timeout: 60})
	r.must(err)
	testutil.Assert(r, response.GetExitCode() == 0,
		"%s: exit code %d, %s", command, response.GetExitCode(), response.GetStderr())
	return strings.TrimSpace(string(response.GetStdout()))
}
