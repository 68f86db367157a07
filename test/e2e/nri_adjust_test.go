package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// adjustment is one kind of adjustment: what a plugin does, and what shows it in the container.
type adjustment struct {
	adjust func(n *nriNode, a *api.ContainerAdjustment)
	check  func(n *nriNode, t *testing.T, id string, pid int)
}

// adjustments are the kinds that work with every runtime.
func adjustments() map[string]adjustment {
	return map[string]adjustment{
		"annotations": {
			func(_ *nriNode, a *api.ContainerAdjustment) { a.AddAnnotation("nri.test/key", "value") },
			func(n *nriNode, t *testing.T, id string, pid int) {
				var spec struct{ Annotations map[string]string }
				n.bundle(id, pid, &spec)
				testutil.Equal(t, spec.Annotations["nri.test/key"], "value", "annotation")
			},
		},
		"mounts": {
			func(n *nriNode, a *api.ContainerAdjustment) {
				a.AddMount(&api.Mount{Destination: "/deep/below", Type: "bind", Source: n.dir,
					Options: []string{"rbind", "ro"}})
				a.AddMount(&api.Mount{Destination: "/deep", Type: "tmpfs", Source: "tmpfs"})
				a.RemoveMount("/gone")
			},
			func(n *nriNode, t *testing.T, id string, pid int) {
				testutil.Assert(t, strings.Contains(n.mountAt(pid, "/deep/below"), " ro,"),
					"/deep/below is not a read-only mount")
				testutil.Equal(t, n.mountAt(pid, "/gone"), "", "the removed mount")
			},
		},
		"env": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.AddEnv("ADDED", "yes")
				a.RemoveEnv("KEPT")
				a.AddEnv("KEPT", "changed")
				a.RemoveEnv("GONE")
			},
			func(n *nriNode, t *testing.T, id string, pid int) {
				same(t, "a command's variables", n.sh(id, "echo $ADDED-$KEPT-${GONE-unset}"), "yes-changed-unset")
				environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
				testutil.Assert(t, err == nil && strings.Contains(string(environ), "ADDED=yes\x00") &&
					!strings.Contains(string(environ), "GONE="), "the process has %q, %v", environ, err)
			},
		},
		"args": {
			func(_ *nriNode, a *api.ContainerAdjustment) { a.SetArgs([]string{"sleep", "1234567"}) },
			func(n *nriNode, t *testing.T, id string, pid int) {
				line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				testutil.Assert(t, err == nil && string(line) == "sleep\x001234567\x00", "%q, %v", line, err)
			},
		},
		"hooks": {
			func(n *nriNode, a *api.ContainerAdjustment) {
				a.AddHooks(&api.Hooks{CreateRuntime: []*api.Hook{{Path: "/bin/sh",
					Args: []string{"sh", "-c", "cat >" + n.dir + "/hook"}, Timeout: api.Int(10)}}})
			},
			func(n *nriNode, t *testing.T, id string, _ int) {
				given, err := os.ReadFile(filepath.Join(n.dir, "hook"))
				testutil.Assert(t, err == nil && strings.Contains(string(given), id), "the hook got %q, %v", given, err)
			},
		},
		"rlimits": {
			func(_ *nriNode, a *api.ContainerAdjustment) { a.AddRlimit("RLIMIT_NOFILE", 1000, 900) },
			func(n *nriNode, t *testing.T, id string, pid int) {
				// Some builds of runc 1.1 give a command the hard limit as its soft limit.
				same(t, "a command's hard limit", n.sh(id, "ulimit -H -n"), "1000")
				limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
				testutil.Assert(t, err == nil && strings.Contains(strings.Join(strings.Fields(string(limits)), " "),
					"Max open files 900 1000"), "the process has %s, %v", limits, err)
			},
		},
		"devices": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.AddDevice(&api.LinuxDevice{Path: "/dev/nri", Type: "c", Major: 1, Minor: 7,
					FileMode: api.FileMode(os.FileMode(0o666))})
			},
			func(n *nriNode, t *testing.T, id string, _ int) {
				same(t, "a write inside", n.sh(id, "echo x >/dev/nri"), "sh: write error: No space left on device")
			},
		},
		"CDI devices": {
			func(_ *nriNode, a *api.ContainerAdjustment) { a.AddCDIDevice(&api.CDIDevice{Name: cdiKind + "=full"}) },
			func(n *nriNode, t *testing.T, id string, pid int) {
				same(t, "a variable and a write inside", n.sh(id, "echo $CDI_FULL; echo x >/dev/cdi"),
					"yes sh: write error: No space left on device")
				testutil.Assert(t, n.mountAt(pid, "/cdi") != "", "its mount is missing")
			},
		},
		"resources": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.SetLinuxMemoryLimit(64 << 20)
				a.SetLinuxMemoryReservation(32 << 20)
				a.SetLinuxCPUShares(333)
				a.SetLinuxCPUQuota(40_000)
				a.SetLinuxCPUPeriod(100_000)
				a.SetLinuxPidLimits(55)
			},
			func(n *nriNode, t *testing.T, id string, pid int) {
				status, err := n.server.Runtime.ContainerStatus(t.Context(), id, false)
				testutil.Must(t, err)
				got := status.GetStatus().GetResources().GetLinux()
				testutil.Assert(t, got.GetMemoryLimitInBytes() == 64<<20 && got.GetCpuShares() == 333 &&
					got.GetCpuQuota() == 40_000, "the status shows %v", got)
				n.wantLimit(t, pid, "memory", "memory.limit_in_bytes", "memory.max", "67108864")
				n.wantLimit(t, pid, "memory", "memory.soft_limit_in_bytes", "memory.low", "33554432")
				n.wantLimit(t, pid, "pids", "pids.max", "pids.max", "55")
			},
		},
		"cgroupsPath": {
			func(n *nriNode, a *api.ContainerAdjustment) { a.SetLinuxCgroupsPath(n.cgroup) },
			func(n *nriNode, t *testing.T, _ string, pid int) {
				cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
				testutil.Assert(t, err == nil && strings.Contains(string(cgroups), n.cgroup), "%s, %v", cgroups, err)
			},
		},
		"oomScoreAdj": {
			func(_ *nriNode, a *api.ContainerAdjustment) { a.SetLinuxOomScoreAdj(new(555)) },
			func(_ *nriNode, t *testing.T, _ string, pid int) {
				score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
				testutil.Assert(t, err == nil && strings.TrimSpace(string(score)) == "555", "%s, %v", score, err)
			},
		},
		"sysctl": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.SetLinuxSysctl("net.ipv4.ip_unprivileged_port_start", "777")
			},
			func(n *nriNode, t *testing.T, id string, _ int) {
				same(t, "inside", n.sh(id, "cat /proc/sys/net/ipv4/ip_unprivileged_port_start"), "777")
			},
		},
		"seccomp policy": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				refused := &api.LinuxSyscall{Names: []string{"mkdir", "mkdirat"}, Action: "SCMP_ACT_ERRNO",
					ErrnoRet: api.UInt32(uint32(unix.EACCES))}
				a.SetLinuxSeccompPolicy(
					&api.LinuxSeccomp{DefaultAction: "SCMP_ACT_ALLOW", Syscalls: []*api.LinuxSyscall{refused}})
			},
			func(n *nriNode, t *testing.T, id string, _ int) {
				same(t, "a system call inside", n.sh(id, "mkdir /new"),
					"mkdir: can't create directory '/new': Permission denied")
			},
		},
		"namespaces": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.AddOrReplaceNamespace(&api.LinuxNamespace{Type: "ipc"})
			},
			func(n *nriNode, t *testing.T, _ string, pid int) {
				own, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/ipc", pid))
				testutil.Must(t, err)
				pods, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/ipc", n.plain))
				testutil.Assert(t, err == nil && own != pods, "pod and container have the namespace %s, %v", own, err)
			},
		},
	}
}

// wantLimit wants a value in a container's cgroup, where this kernel has the file.
func (n *nriNode) wantLimit(t *testing.T, pid int, controller, v1, v2, want string) {
	t.Helper()
	if got, ok := n.cgroupFile(pid, "", controller, v1, v2); ok {
		testutil.Equal(t, got, want, "limit of %s", controller)
	}
}

// TestNRIAdjustments: each kind of adjustment reaches the container. Some kinds must also reach commands in the
// container.
func TestNRIAdjustments(t *testing.T) {
	n := newNRINode(t)
	n.cgroup = "/" + rigenv.Require(t).Cgroup() + "/nri-" + n.config.Metadata.Name
	testutil.Must(t, os.MkdirAll(n.dir, 0o777))
	n.writeCDI()
	kinds := adjustments()
	startPlugin(t, n.socket, "10", "adjuster", adjusting(func(c *api.Container, a *api.ContainerAdjustment) {
		if kind, known := kinds[c.GetAnnotations()["kind"]]; known {
			kind.adjust(n, a)
		}
	}))
	n.pod = runSandbox(t, n.server, n.config)
	_, n.plain = n.run(noted("plain", nil))
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			config := noted(strings.ReplaceAll(strings.ToLower(name), " ", "-"), nil)
			config.Annotations = map[string]string{"kind": name}
			config.Envs = []*runtimeapi.KeyValue{
				{Key: "KEPT", Value: []byte("before")}, {Key: "GONE", Value: []byte("x")}}
			config.Mounts = []*runtimeapi.Mount{{HostPath: n.dir, ContainerPath: "/gone"}}
			id, pid := n.run(config)
			awaitSleep(t, pid)
			kind.check(n, t, id, pid)
		})
	}
}

// awaitSleep waits until a process has become the container's command: a moment after the start it is still runc's.
func awaitSleep(t *testing.T, pid int) {
	t.Helper()
	testutil.Eventually(t, func() error {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && !strings.HasPrefix(string(line), "sleep\x00") {
			err = fmt.Errorf("the process is %q", line)
		}
		return err
	})
}

// newKinds are adjustments that old runtimes would ignore.
func newKinds() map[string]adjustment {
	return map[string]adjustment{
		"scheduler": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.SetLinuxScheduler(&api.LinuxScheduler{Policy: api.LinuxSchedulerPolicy_SCHED_BATCH, Nice: 3})
			},
			func(_ *nriNode, t *testing.T, _ string, pid int) {
				stat := testutil.ReadFile(t, fmt.Sprintf("/proc/%d/stat", pid))
				const nice, policy = 18, 40 // proc_pid_stat(5), counted from zero
				fields := strings.Fields(stat)
				testutil.Assert(t, fields[policy] == "3" && fields[nice] == "3", "policy %s, nice %s", fields[policy],
					fields[nice])
			},
		},
		"io priority": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.SetLinuxIOPriority(&api.LinuxIOPriority{Class: api.IOPrioClass_IOPRIO_CLASS_BE, Priority: 6})
			},
			func(_ *nriNode, t *testing.T, _ string, pid int) {
				const whoProcess, bestEffort = 1, 2 << 13 // ioprio_get(2)
				got, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, whoProcess, uintptr(pid), 0)
				testutil.Assert(t, errno == 0 && got == bestEffort|6, "priority %x, %v", got, errno)
			},
		},
		"memory policy": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.SetLinuxMemoryPolicy(api.MpolMode_MPOL_INTERLEAVE, "0")
			},
			func(_ *nriNode, t *testing.T, _ string, pid int) {
				maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
				testutil.Assert(t, err != nil || strings.Contains(string(maps), " interleave:0 "), "%s", maps)
			},
		},
		"network devices": {
			func(_ *nriNode, a *api.ContainerAdjustment) {
				a.AddLinuxNetDevice(netDevice, &api.LinuxNetDevice{Name: "inside"})
			},
			func(n *nriNode, t *testing.T, id string, _ int) {
				same(t, "the device in the pod", n.sh(id, "ls -d /sys/class/net/inside"), "/sys/class/net/inside")
			},
		},
	}
}

// netDevice is a device of the host for a container.
const netDevice = "nri0"

// addNetDevice makes the device, as one end of a pair.
func addNetDevice(t *testing.T) {
	t.Helper()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: netDevice}, PeerName: netDevice + "p"}
	testutil.Must(t, netlink.LinkAdd(link))
	t.Cleanup(func() { _ = netlink.LinkDel(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: netDevice + "p"}}) })
}

// TestNRINewKinds: an adjustment that the runtime does not know fails the start. The error names the OCI version that
// the adjustment needs. The other adjustments take effect.
func TestNRINewKinds(t *testing.T) {
	n := newNRINode(t)
	addNetDevice(t)
	kinds := newKinds()
	startPlugin(t, n.socket, "10", "adjuster", adjusting(func(c *api.Container, a *api.ContainerAdjustment) {
		kinds[c.GetAnnotations()["kind"]].adjust(n, a)
	}))
	n.pod = runSandbox(t, n.server, n.config)
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			config := noted(strings.ReplaceAll(name, " ", "-"), nil)
			config.Annotations = map[string]string{"kind": name}
			id, err := n.create(config)
			testutil.Must(t, err)
			if err := n.server.Runtime.StartContainer(t.Context(), id); err != nil {
				// The runc of engine 29 knows all kinds.
				old := !strings.HasPrefix(rigenv.Require(t).Engine, "29")
				testutil.Assert(t, old && strings.Contains(err.Error(), "needs a runtime with OCI version"), "%v", err)
				return
			}
			pid := n.process(id)
			awaitSleep(t, pid)
			kind.check(n, t, id, pid)
		})
	}
}

// TestNRIUnsupported: an adjustment that cannot be made fails the create with its field.
func TestNRIUnsupported(t *testing.T) {
	n := newNRINode(t)
	kinds := map[string]func(*api.ContainerAdjustment){
		"linux.resources.blockio_class": func(a *api.ContainerAdjustment) { a.SetLinuxBlockIOClass("gold") },
		"linux.resources.rdt_class":     func(a *api.ContainerAdjustment) { a.SetLinuxRDTClass("gold") },
		"CDI_devices": func(a *api.ContainerAdjustment) {
			a.AddCDIDevice(&api.CDIDevice{Name: "no/such=one"})
		},
	}
	startPlugin(t, n.socket, "10", "adjuster", adjusting(func(c *api.Container, a *api.ContainerAdjustment) {
		kinds[c.GetAnnotations()["kind"]](a)
	}))
	n.pod = runSandbox(t, n.server, n.config)
	for field := range kinds {
		config := noted("main", nil)
		config.Annotations = map[string]string{"kind": field}
		_, err := n.create(config)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), "NRI plugin: "+field), "%s: %v", field, err)
	}
	containers, err := n.server.Runtime.ListContainers(t.Context(), nil)
	testutil.Assert(t, err == nil && len(containers) == 0, "containers: %v, %v", containers, err)
}
