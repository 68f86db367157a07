package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Tests of fields compare a request with the state of the running container, inside and outside of it. server/fields
// names the test of each field, as some are in other files.

// fieldsNode is a server with one pod and an image to run.
type fieldsNode struct {
	*testing.T
	server *adapter.Server
	config *runtimeapi.PodSandboxConfig
	pod    string
	image  string
	// dir is on a shared mount.
	dir string
}

func newFieldsNode(t *testing.T, flags ...string) *fieldsNode {
	t.Helper()
	env := rigenv.Require(t)
	n := &fieldsNode{T: t, server: adapter.NewForTest(t, adapter.Options{Env: env, Flags: flags})}
	n.dualStack()
	testutil.Must(n, n.server.Start(t.Context()))
	n.image = pull(t, n.server, env.Image("test/busybox:latest"))
	n.dir = filepath.Join(n.server.Dir, "host")
	name := rigenv.Unique(t.Name())
	n.config = &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "e2e", Uid: name + "-uid"},
		Hostname:     "truth",
		LogDirectory: filepath.Join(n.server.Dir, "logs"),
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10", "fd00::10"},
			Searches: []string{"a.local", "b.local"}, Options: []string{"ndots:3", "edns0"}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{},
			Sysctls:         map[string]string{"kernel.shm_rmid_forced": "1"},
		},
	}
	return n
}

// dualStack adds a range of IPv6 to the pod network.
func (n *fieldsNode) dualStack() {
	n.Helper()
	config := map[string]any{}
	testutil.Must(n, json.Unmarshal([]byte(testutil.ReadFile(n, n.server.CNIConfig())), &config))
	ipam := config["plugins"].([]any)[0].(map[string]any)["ipam"].(map[string]any)
	ipam["ranges"] = append(ipam["ranges"].([]any), []any{map[string]string{"subnet": "fd00:88:16::/64"}})
	ipam["routes"] = append(ipam["routes"].([]any), map[string]string{"dst": "::/0"})
	content, err := json.Marshal(config)
	testutil.Must(n, err)
	testutil.Must(n, os.WriteFile(n.server.CNIConfig(), content, 0o644))
}

// run makes and starts a container of the pod and returns its id and its process.
func (n *fieldsNode) run(config *runtimeapi.ContainerConfig) (id string, pid int) {
	n.Helper()
	config.LogPath = config.Metadata.Name + ".log"
	id, err := n.create(config)
	testutil.Must(n, err)
	testutil.Must(n, n.server.Runtime.StartContainer(n.Context(), id))
	return id, n.process(id)
}

// create creates a container of the node's image.
func (n *fieldsNode) create(config *runtimeapi.ContainerConfig) (string, error) {
	config.Image = &runtimeapi.ImageSpec{Image: n.image}
	return n.server.Runtime.CreateContainer(n.Context(), n.pod, config, n.config)
}

// process returns the process of a container.
func (n *fieldsNode) process(id string) int {
	n.Helper()
	status, err := n.server.Runtime.ContainerStatus(n.Context(), id, true)
	testutil.Must(n, err)
	return processOf(n.T, status.GetInfo())
}

// processOf returns the process in a verbose status.
func processOf(t *testing.T, info map[string]string) int {
	t.Helper()
	var parsed struct{ PID int }
	err := json.Unmarshal([]byte(info["info"]), &parsed)
	testutil.Require(t, err == nil, "%v in %s", err, info["info"])
	return parsed.PID
}

// sh runs a script in a container and returns its output in one line.
func (n *fieldsNode) sh(id, script string) string {
	n.Helper()
	stdout, stderr, err := n.server.Runtime.ExecSync(n.Context(), id, []string{"sh", "-c", script}, time.Minute)
	testutil.Assert(n, err == nil || len(stdout)+len(stderr) != 0, "%s: %v", script, err)
	return strings.Join(strings.Fields(string(stdout)+string(stderr)), " ")
}

// cgroupFile reads a file of a process's cgroup, of version 1 or else of version 2. With ".." as up, it reads the file
// of the parent cgroup, which is the pod's. It returns false if the kernel has neither file.
func (n *fieldsNode) cgroupFile(pid int, up, controller, v1, v2 string) (string, bool) {
	n.Helper()
	content := testutil.ReadFile(n, fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(content) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		name := v2
		if parts[1] != "" {
			name = v1
		}
		if parts[1] != "" && !slices.Contains(strings.Split(parts[1], ","), controller) {
			continue
		}
		// Beside cgroup v1, cgroup v2 limits nothing and is mounted elsewhere, so no file is found for it.
		if value, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", parts[1], parts[2], up, name)); err == nil &&
			name != "" {
			return strings.TrimSpace(string(value)), true
		}
	}
	return "", false
}

// wantCgroup wants a value in a file of a process's cgroup: want1 of version 1, or else want2 of version 2.
func (n *fieldsNode) wantCgroup(pid int, up, controller, v1, want1, v2, want2 string) {
	n.Helper()
	if got, ok := n.cgroupFile(pid, up, controller, v1, ""); ok {
		testutil.Equal(n, got, want1, "%s", v1)
	} else if got, ok := n.cgroupFile(pid, up, controller, "", v2); ok {
		testutil.Equal(n, got, want2, "%s", v2)
	} else {
		n.Errorf("the cgroup has neither %s nor %s", v1, v2)
	}
}

func TestFieldsOfPods(t *testing.T) {
	rigenv.RequireControllers(t, "cpu", "memory")
	n := newFieldsNode(t)
	pod := n.config.Linux
	pod.CgroupParent = filepath.Join("/", rigenv.Require(t).Cgroup(), n.config.Metadata.Name)
	pod.Overhead = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 64 << 20, CpuShares: 100}
	pod.Resources = &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 192 << 20, CpuShares: 412,
		CpuPeriod: 100_000, CpuQuota: 80_000}
	ports := n.hostPorts(3)
	for i, protocol := range []runtimeapi.Protocol{runtimeapi.Protocol_TCP, runtimeapi.Protocol_UDP,
		runtimeapi.Protocol_SCTP} {
		n.config.PortMappings = append(n.config.PortMappings, &runtimeapi.PortMapping{
			Protocol: protocol, ContainerPort: 7000 + int32(i), HostPort: ports[i],
		})
	}
	n.pod = runSandbox(t, n.server, n.config)
	id, pid := n.run(&runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"}, Command: []string{"sleep", "1000000"},
	})

	t.Run("names and DNS", func(t *testing.T) {
		same(t, "host name", n.sh(id, "hostname"), "truth")
		same(t, "resolv.conf", n.sh(id, "cat /etc/resolv.conf"),
			"nameserver 10.0.0.10 nameserver fd00::10 search a.local b.local options ndots:3 edns0")
	})
	t.Run("the pod's cgroup", func(t *testing.T) {
		n.wantCgroup(pid, "..", "memory", "memory.limit_in_bytes", strconv.Itoa(256<<20), "memory.max",
			strconv.Itoa(256<<20))
		n.wantCgroup(pid, "..", "cpu", "cpu.shares", "512", "cpu.weight", "20")
		n.wantCgroup(pid, "..", "cpu", "cpu.cfs_quota_us", "80000", "cpu.max", "80000 100000")
		_, err := runtimeapi.NewRuntimeServiceClient(n.server.Conn).
			UpdatePodSandboxResources(t.Context(), &runtimeapi.UpdatePodSandboxResourcesRequest{
				PodSandboxId: n.pod,
				Resources:    &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 256 << 20, CpuShares: 924},
			})
		testutil.Must(n, err)
		n.wantCgroup(pid, "..", "memory", "memory.limit_in_bytes", strconv.Itoa(320<<20), "memory.max",
			strconv.Itoa(320<<20))
		n.wantCgroup(pid, "..", "cpu", "cpu.shares", "1024", "cpu.weight", "39")
		status, err := n.server.Runtime.PodSandboxStatus(t.Context(), n.pod, true)
		testutil.Must(n, err)
		info := status.GetInfo()["info"]
		testutil.Assert(t, strings.Contains(info, `"memory_limit_in_bytes":268435456`),
			"the verbose status does not have the new limit: %s", info)
	})
	t.Run("both IP families and host ports", func(t *testing.T) {
		status, err := n.server.Runtime.PodSandboxStatus(t.Context(), n.pod, false)
		testutil.Must(n, err)
		network := status.GetStatus().GetNetwork()
		testutil.Require(t, strings.HasPrefix(network.GetIp(), "10.88.") && len(network.GetAdditionalIps()) == 1 &&
			strings.HasPrefix(network.GetAdditionalIps()[0].GetIp(), "fd00:88:16:"),
			"the addresses are %v", network)
		inside := n.sh(id, "ip addr show eth0")
		for _, ip := range []string{network.GetIp(), network.GetAdditionalIps()[0].GetIp()} {
			testutil.Assert(t, strings.Contains(inside, ip), "eth0 has no %s: %s", ip, inside)
		}
		n.wantForwarded(ports, network.GetIp(), network.GetAdditionalIps()[0].GetIp())
	})
}

func TestFieldsOfContainers(t *testing.T) {
	n := newFieldsNode(t)
	n.config.Linux.SecurityContext.Privileged = true
	n.pod = runSandbox(t, n.server, n.config)
	testutil.Must(n, os.MkdirAll(filepath.Join(n.dir, "sub"), 0o777))
	profile := filepath.Join(n.dir, "seccomp.json")
	testutil.WriteFile(t, profile, `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}`)
	mib := int64(1 << 20)
	id, pid := n.run(&runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: "confined"},
		Command:    []string{"sh", "-c"},
		Args:       []string{`echo "$FIRST $PWD"; trap 'echo usr1; exit 3' USR1; while :; do sleep 0.05; done`},
		WorkingDir: "/var/tmp",
		Envs: []*runtimeapi.KeyValue{{Key: "FIRST", Value: []byte("a=b\tc")},
			{Key: "PATH", Value: []byte("/bin:/usr/bin")}},
		Mounts: []*runtimeapi.Mount{
			{HostPath: n.dir, ContainerPath: "/private"},
			{HostPath: n.dir, ContainerPath: "/readonly", Readonly: true},
		},
		Devices: []*runtimeapi.Device{
			{HostPath: "/dev/full", ContainerPath: "/dev/mine", Permissions: "r"},
			{HostPath: "/dev/kmsg", ContainerPath: "/dev/writable", Permissions: "w"},
		},
		StopSignal: runtimeapi.Signal_SIGNAL_SIGUSR1,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{
				CpuPeriod: 50_000, CpuQuota: 20_000, CpuShares: 512, CpusetCpus: "0", CpusetMems: "0", OomScoreAdj: 500,
				MemoryLimitInBytes: 64 * mib, MemorySwapLimitInBytes: 96 * mib,
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: 4 << 20}},
			},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
				RunAsUsername:    "www-data", SupplementalGroups: []int64{77},
				ReadonlyRootfs: true, NoNewPrivs: true,
				MaskedPaths: []string{"/proc/meminfo"}, ReadonlyPaths: []string{"/proc/sys"},
				Capabilities: &runtimeapi.Capability{AddCapabilities: []string{"NET_ADMIN"},
					DropCapabilities: []string{"CHOWN"}},
				Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost,
					LocalhostRef: profile},
			},
		},
	})
	t.Run("process", func(t *testing.T) {
		testutil.Eventually(t, func() error {
			log, err := os.ReadFile(filepath.Join(n.config.LogDirectory, "confined.log"))
			if !strings.Contains(string(log), "a=b\tc /var/tmp") {
				return fmt.Errorf("the log holds %q, %v", log, err)
			}
			return nil
		})
		same(t, "user and groups", n.sh(id, "id -u; id -g; id -G"), "33 33 33 77")
		same(t, "no_new_privs", n.procStatus(pid, "NoNewPrivs"), "1")
		same(t, "readonly_rootfs", n.sh(id, "touch /var/tmp/x && echo written"),
			"touch: /var/tmp/x: Read-only file system")
		same(t, "seccomp", n.procStatus(pid, "Seccomp"), "2")
		same(t, "the profile's system call", n.sh(id, "mkdir /private/new && echo made"),
			"mkdir: can't create directory '/private/new': Operation not permitted")
		bounding, err := strconv.ParseUint(n.procStatus(pid, "CapBnd"), 16, 64)
		testutil.Must(n, err)
		const chown, netAdmin = 0, 12
		testutil.Assert(t, bounding&(1<<chown) == 0 && bounding&(1<<netAdmin) != 0, "the bounding set is %x", bounding)
	})
	t.Run("paths", func(t *testing.T) {
		same(t, "masked", n.sh(id, "wc -c < /proc/meminfo"), "0")
		line := n.mountAt(pid, "/proc/sys")
		testutil.Assert(t, strings.Contains(line, " ro,"), "/proc/sys is %q", line)
		line = n.mountAt(pid, "/readonly")
		testutil.Assert(t, strings.Contains(line, " ro,"), "the read-only mount is %q", line)
		if line := n.mountAt(pid, "/private"); strings.Contains(line, "shared:") || strings.Contains(line, "master:") ||
			!strings.Contains(line, " rw,") {
			t.Errorf("the private mount is %q", line)
		}
	})
	t.Run("limits", func(t *testing.T) {
		rigenv.RequireControllers(t, "cpu", "cpuset", "memory")
		n.wantCgroup(pid, "", "memory", "memory.limit_in_bytes", fmt.Sprint(64*mib), "memory.max", fmt.Sprint(64*mib))
		n.wantCgroup(pid, "", "memory", "memory.memsw.limit_in_bytes", fmt.Sprint(96*mib), "memory.swap.max",
			fmt.Sprint(32*mib))
		n.wantCgroup(pid, "", "cpu", "cpu.cfs_quota_us", "20000", "cpu.max", "20000 50000")
		n.wantCgroup(pid, "", "cpu", "cpu.cfs_period_us", "50000", "cpu.max", "20000 50000")
		n.wantCgroup(pid, "", "cpu", "cpu.shares", "512", "cpu.weight", "20")
		n.wantCgroup(pid, "", "cpuset", "cpuset.cpus", "0", "cpuset.cpus", "0")
		n.wantCgroup(pid, "", "cpuset", "cpuset.mems", "0", "cpuset.mems", "0")
		// A kernel without the controller hugetlb has no limit on huge pages.
		if got, ok := n.cgroupFile(pid, "", "hugetlb", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"); ok &&
			got != "4194304" {
			t.Errorf("huge pages are limited to %s", got)
		}
		score := testutil.ReadFile(n, fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		same(t, "oom_score_adj", strings.TrimSpace(score), "500")
	})
	t.Run("devices", func(t *testing.T) {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/root/dev/mine", pid))
		testutil.Assert(t, err == nil && info.Mode()&os.ModeCharDevice != 0, "the device is %v, %v", info, err)
		list, ok := n.cgroupFile(pid, "", "devices", "devices.list", "")
		for _, rule := range []string{"c 1:7 r", "c 1:11 w"} {
			if ok && !slices.Contains(strings.Split(list, "\n"), rule) && !strings.Contains(list, "c 1:7 rwm") {
				t.Errorf("the cgroup allows %q, want %q among it", list, rule)
			}
		}
	})
	t.Run("stop signal", func(t *testing.T) {
		testutil.Must(n, n.server.Runtime.StopContainer(t.Context(), id, 30))
		status, err := n.server.Runtime.ContainerStatus(t.Context(), id, false)
		testutil.Must(n, err)
		same(t, "exit code", status.GetStatus().GetExitCode(), int32(3))
		same(t, "signal", status.GetStatus().GetStopSignal(), runtimeapi.Signal_SIGNAL_SIGUSR1)
	})
	n.open(t)
}

// open checks an unconfined container, with ALL capabilities and empty lists of paths.
func (n *fieldsNode) open(t *testing.T) {
	id, pid := n.run(&runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "open"}, Command: []string{"sleep", "1000000"},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 32 << 20},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser: &runtimeapi.Int64Value{Value: 1234}, RunAsGroup: &runtimeapi.Int64Value{Value: 5678},
				Capabilities: &runtimeapi.Capability{AddCapabilities: []string{"ALL"}},
			},
		},
	})
	_, privileged := n.run(&runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "privileged"}, Command: []string{"sleep", "1000000"},
		Linux: &runtimeapi.LinuxContainerConfig{
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{Privileged: true}},
	})
	t.Run("nothing confines it", func(t *testing.T) {
		same(t, "seccomp", n.procStatus(pid, "Seccomp"), "0")
		same(t, "no_new_privs", n.procStatus(pid, "NoNewPrivs"), "0")
		same(t, "the capabilities of ALL", n.procStatus(pid, "CapBnd"), n.procStatus(privileged, "CapBnd"))
		same(t, "user and group", n.procStatus(pid, "Uid")+" "+n.procStatus(pid, "Gid"),
			"1234 1234 1234 1234 5678 5678 5678 5678")
		testutil.Equal(t, n.mountAt(pid, "/proc/sys")+n.mountAt(pid, "/proc/kcore"), "", "with empty lists there")
		same(t, "a sysctl of the pod", n.sh(id, "cat /proc/sys/kernel/shm_rmid_forced"), "1")
	})
	// Newer engines give each container a time namespace, which must not change its clocks.
	t.Run("the node's clocks", func(t *testing.T) {
		var here, inside float64
		_, err := fmt.Sscan(testutil.ReadFile(n, "/proc/uptime"), &here)
		testutil.Must(n, err)
		_, err = fmt.Sscan(n.sh(id, "cat /proc/uptime"), &inside)
		testutil.Must(n, err)
		testutil.Assert(t, inside >= here && inside <= here+60,
			"the node is up for %v s, a container later says %v", here, inside)
	})
	t.Run("no swap but what is asked for", func(t *testing.T) {
		rigenv.RequireControllers(t, "memory")
		n.wantCgroup(pid, "", "memory", "memory.memsw.limit_in_bytes", fmt.Sprint(32<<20), "memory.swap.max", "0")
	})
}

func (n *fieldsNode) procStatus(pid int, field string) string {
	n.Helper()
	content := testutil.ReadFile(n, fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(content) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	n.Fatalf("no %s of process %d", field, pid)
	return ""
}

// mountAt returns the line of a mount point in the process's mountinfo, empty for none.
func (n *fieldsNode) mountAt(pid int, target string) string {
	n.Helper()
	content := testutil.ReadFile(n, fmt.Sprintf("/proc/%d/mountinfo", pid))
	for line := range strings.Lines(content) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == target {
			return line
		}
	}
	return ""
}
