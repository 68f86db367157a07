package check

import (
	"bytes"
	"errors"
	"flag"
	"path/filepath"
	"testing"

	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// good is a node with nothing to fix.
func good() facts {
	const gb = 1e9
	plugin := func(name string) cni.Plugin {
		return cni.Plugin{Type: name, Path: "/opt/cni/bin/" + name, Versions: []string{"0.4.0", "1.0.0", "1.1.0"}}
	}
	disk := func(use, path string) diskFacts {
		return diskFacts{use, checklist.Disk{
			Path: path, Free: 60 * gb, Total: 100 * gb, FreeInodes: 6e6, Inodes: 7e6,
		}}
	}
	return facts{
		Config: config.Default(),
		Kubelet: kubeletFacts{File: "/var/lib/kubelet/config.yaml", CgroupDriver: "systemd",
			RuntimeEndpoint: config.Default().Endpoint, FailSwapOn: true, FailCgroupV1: true},
		Engine: docker.Features{
			ServerVersion: "29.1.0", APIVersion: "1.52", CgroupVersion: 2, CgroupDriver: "systemd",
			StorageDriver:        "overlayfs",
			ContainerdImageStore: true, Root: "/var/lib/docker", Runtimes: []string{"io.containerd.runc.v2", "runc"},
			DefaultRuntime:    "runc",
			RecursiveReadOnly: []string{"io.containerd.runc.v2", "runc"}, LiveRestore: true, Seccomp: true,
			AppArmor:  true,
			SwapLimit: true, NegativeOOMScore: true,
			Limits: []docker.Limit{{Name: "nofile", Soft: 1024, Hard: docker.Unlimited}},
		},
		Network: networkFacts{
			Config:  cni.Config{Name: "cbr0", File: "/etc/cni/net.d/10-flannel.conflist", CNIVersion: "1.0.0"},
			Plugins: []cni.Plugin{plugin("bridge"), plugin("host-local"), plugin("portmap")},
		},
		CRI:          socketFacts{Path: "/run/criadapter/criadapter.sock", Mode: 0o600, Answers: "criadapter v0.2.0"},
		EngineSocket: socketFacts{Path: "/var/run/docker.sock", Mode: 0o660},
		Disks: []diskFacts{disk("root directory", "/var/lib/criadapter"), disk("images", "/var/lib/docker"),
			disk("pod logs", "/var/log/pods")},
		Kernel: kernelFacts{
			Release: "6.1.0-13-amd64", MaxUserNamespaces: 95000, AppArmor: true, Seccomp: true, PSI: true, CRIU: true,
			IPForward:  true,
			BridgeCall: "1", InotifyInstances: 8192, InotifyWatches: 524288, PIDMax: 4194304, FileMax: 1 << 40,
		},
	}
}

// nodes are the good node and broken ones. Each is a change of the good node.
var nodes = map[string]func(f *facts){
	"good": func(*facts) {},
	"sandboxed-runtimes": func(f *facts) {
		f.OCIRuntime = docker.OCIRuntime{Name: "io.containerd.criadapter.v2", Notes: "/run/criadapter/oci"}
		f.Engine.SandboxedRuntimes = []string{"firecracker", "gvisor"}
		f.Engine.PodSandboxRuntimes = []string{"gvisor"}
	},
	"gvisor-without-oci-runtime": func(f *facts) {
		f.Engine.SandboxedRuntimes = []string{"gvisor", "kata"}
		f.Engine.PodSandboxRuntimes, f.Engine.OwnShims = f.Engine.SandboxedRuntimes, map[string]string{"kata": "shim"}
	},
	"sandboxed-default-runtime": func(f *facts) {
		f.Engine.SandboxedRuntimes, f.Engine.PodSandboxRuntimes = []string{"gvisor"}, []string{"gvisor"}
		f.Engine.DefaultRuntime = "gvisor"
	},
	"engine-away": func(f *facts) {
		f.EngineErr = errors.New(
			"connect to Docker Engine at unix:///var/run/docker.sock: dial unix /var/run/docker.sock: connect: " +
				"no such file or directory: unavailable")
		f.Engine = docker.Features{}
		f.Left.Unknown = f.EngineErr
		f.EngineSocket.Mode = 0
	},
	"engine-too-old": func(f *facts) {
		f.EngineErr = errors.New("Docker Engine 19.03.15 (API 1.40) is too old: 20.10 or later is needed")
		f.Engine = docker.Features{}
		f.Left.Unknown = f.EngineErr
	},
	"old-api-with-oci-runtime": func(f *facts) {
		f.Engine.ServerVersion, f.Engine.APIVersion, f.Engine.RecursiveReadOnly = "20.10.24", "1.41", nil
		f.OCIRuntime = docker.OCIRuntime{Name: "criadapter", Notes: "/run/criadapter/oci"}
		f.Engine.LiveRestore = false
	},
	"mirrors-of-another-store": func(f *facts) {
		f.Engine.ContainerdImageStore, f.Engine.StorageDriver = false, "overlay2"
		f.Mirrors, f.ContainerdMirrors = []string{"docker.io", "registry.example.com"}, []string{"quay.io"}
	},
	"invalid-image-policy": func(f *facts) {
		f.Config.ImagePolicy = "/etc/criadapter/image-policy.yaml"
		f.ImagePolicyErr = errors.New(
			`/etc/criadapter/image-policy.yaml: default: "" must be accept or reject`)
	},
	"nri-without-live-restore": func(f *facts) {
		f.Config.NRI, f.NRIPlugins = config.NRIEnabled, []string{"10-logger"}
		f.OCIRuntime = docker.OCIRuntime{Name: "criadapter", Notes: "/run/criadapter/oci"}
		f.Engine.LiveRestore = false
	},
	"nri-for-limits-alone": func(f *facts) { f.Config.NRI = config.NRIEnabled },
	"nri-with-a-bad-plugin": func(f *facts) {
		f.Config.NRI = config.NRIEnabled
		f.NRIErr = errors.New(`/opt/nri/plugins/logger: invalid plugin name "logger", idx-pluginname expected`)
	},
	"unusable-oci-runtime": func(f *facts) {
		f.OCIRuntimeErr = errors.New(
			"default-runtime of daemon.json is criadapter, whose program is criadapter-oci: set it to the runtime " +
				"that criadapter-oci must call")
	},
	"required-oci-runtime": func(f *facts) { f.Config.OCIRuntime = "required" },
	"old-store": func(f *facts) {
		f.Engine.StorageDriver, f.Engine.ContainerdImageStore, f.Engine.LiveRestore, f.Engine.NegativeOOMScore = "vfs",
			false, false, false
		f.Engine.Limits[0].Hard = 4096
	},
	"wrong-cgroup-driver": func(f *facts) {
		f.Engine.CgroupDriver, f.Engine.CgroupVersion = "cgroupfs", 1
		f.Kubelet.RuntimeEndpoint = "unix:///run/cri-dockerd.sock"
		f.Kernel.SwapOn = true
	},
	"engine-stopped": func(f *facts) {
		f.EngineErr = errors.New("unix:///var/run/docker.sock: no server runs: systemd listens there and would start " +
			"one, so start its service first")
		f.Engine = docker.Features{}
		f.Left.Unknown = f.EngineErr
	},
	"kubeadm-flags-of-another-runtime": func(f *facts) {
		f.Kubelet.RuntimeEndpoint = "unix:///run/cri-dockerd.sock"
		f.Kubelet.FlagsFile = "/var/lib/kubelet/kubeadm-flags.env"
	},
	"broken-kubelet-config": func(f *facts) {
		f.Kubelet = kubeletFacts{File: "/etc/kubelet.yaml",
			Err: errors.New("error converting YAML to JSON: yaml: line 3: found character that cannot start any token")}
	},
	"no-network": func(f *facts) {
		f.Network = networkFacts{
			Err: errors.New("no CNI configuration in /etc/cni/net.d yet: install a network plugin: unavailable")}
		f.Kernel.IPForward = false
	},
	"bad-plugins": func(f *facts) {
		f.Network.Config.Skipped = []cni.SkippedFile{
			{File: "/etc/cni/net.d/05-old.conf", Reason: "unexpected end of JSON input"}}
		f.Network.Plugins[0] = cni.Plugin{Type: "bridge",
			Err: errors.New(`CNI plugin "bridge" is not in /opt/cni/bin: install it there: unavailable`)}
		f.Network.Plugins[1].Err = errors.New("fork/exec /opt/cni/bin/host-local: permission denied")
		f.Network.Plugins[2].Versions = []string{"0.3.1", "0.4.0"}
		f.Kernel.BridgeCall = "0"
	},
	"plugin-not-ready": func(f *facts) {
		f.Network.Err = errors.New(
			`network "cbr0": plugin "bridge" is not ready: the agent does not answer: unavailable`)
	},
	"other-runtimes": func(f *facts) {
		f.CRI.Answers = "docker 20.10.24"
		f.EngineSocket.Mode = 0o666
		f.Others = []runtimeFacts{{Name: "docker 20.10.24", Endpoint: "unix:///run/cri-dockerd.sock"},
			{Name: "containerd v1.7.2", Endpoint: "unix:///run/containerd/containerd.sock"},
			{Name: "cri-o 1.30.0", Endpoint: "unix:///run/crio/crio.sock"},
			{Name: "docker 29.1.0", Endpoint: "unix:///run/dockershim.sock", AskErr: errors.New("busy")}}
	},
	"full-disks": func(f *facts) {
		f.Disks[0].Memory = true
		f.Disks[1].Free = 2e9
		f.Disks[2].FreeInodes = 1000
		f.Disks = append(f.Disks, diskFacts{"volumes", checklist.Disk{Path: "/srv", Free: 5e8, Total: 4e9}},
			diskFacts{"spool", checklist.Disk{Path: "/spool", Free: 5e8, Total: 4e9, FreeInodes: 1, Inodes: 100}})
	},
	"no-rights": func(f *facts) {
		f.Missing = []string{"CAP_SYS_ADMIN", "CAP_NET_ADMIN"}
		f.CRI = socketFacts{Path: "/run/criadapter/criadapter.sock", Err: errors.New("it is not a socket")}
	},
	"no-sys-resource": func(f *facts) { f.Missing = []string{"CAP_SYS_RESOURCE"} },
	"small-kernel": func(f *facts) {
		f.Kernel = kernelFacts{Release: "4.4.0-generic", IPForward: true, InotifyInstances: 16, InotifyWatches: 4096,
			PIDMax: 4096}
		f.Engine.Seccomp, f.Engine.SwapLimit, f.Engine.RecursiveReadOnly = false, false, nil
	},
	"selinux-unused": func(f *facts) { f.Kernel.AppArmor, f.Kernel.SELinux = false, true },
	"left-behind": func(f *facts) {
		f.Left = leftovers{
			Pins:        []string{"/run/netns/criadapter-0123456789abcdef0123456789abcdef"},
			Attachments: []string{"aaaa"}, Records: []string{"aaaa", "bbbb", "cccc", "dddd"},
			Leases: []string{"/var/lib/cni/networks/cbr0/10.1.0.7"}, Rules: []string{"aaaa"},
			Quarantined: []string{"/var/lib/criadapter/pods/quarantine/eeee.json"},
		}
		f.CRI = socketFacts{Path: "/run/criadapter/criadapter.sock"}
	},
	"unreadable-leases": func(f *facts) { f.Left.LeasesErr = errors.New("open /leases/pods: input/output error") },
	"unreadable-directories": func(f *facts) {
		f.Left.AttachmentsErr = errors.New("open /var/lib/cni/results: input/output error")
		f.Left.QuarantineErr = errors.New("open /var/lib/criadapter/pods/quarantine: input/output error")
	},
	"unreadable-rules": func(f *facts) {
		f.Left.RulesErr = errors.New("iptables-save: exit status 1")
	},
	"partly-unreadable-rules": func(f *facts) {
		f.Left.Rules, f.Left.RulesErr = []string{"aaaa"}, errors.New("ip6tables-save: exit status 1")
	},
}

func TestTranscripts(t *testing.T) {
	for name, damage := range nodes {
		t.Run(name, func(t *testing.T) {
			f := good()
			damage(&f)
			report := judgeNode(f)
			if healthy := report.Failures+report.Warnings == 0; healthy != (name == "good") {
				t.Errorf("%d failures, %d warnings", report.Failures, report.Warnings)
			}
			for _, finding := range report.Findings {
				testutil.Assert(t, finding.Status == checklist.OK || finding.Do != "",
					"nothing to do about %+v", finding)
			}
			var text bytes.Buffer
			testutil.Must(t, report.WriteText(&text))
			testutil.Golden(t, filepath.Join("testdata", name+".txt"), text.String(), *update)
		})
	}
}

// A CNI configuration without cniVersion has the version 0.1.0.
func TestCNIConfigurationWithoutAVersion(t *testing.T) {
	f := good()
	f.Network.Config.CNIVersion = ""
	for i := range f.Network.Plugins {
		f.Network.Plugins[i].Versions = append([]string{"0.1.0"}, f.Network.Plugins[i].Versions...)
	}
	report := judgeNode(f)
	testutil.Assert(t, report.Failures+report.Warnings == 0, "findings: %+v", report.Findings)
}

// The cgroup driver in a kubelet's file matters to old kubelets only.
func TestCgroupDriver(t *testing.T) {
	for driver, want := range map[string]checklist.Outcome{
		"": checklist.OK, "systemd": checklist.OK, "cgroupfs": checklist.Warn,
	} {
		f := good()
		f.Kubelet.CgroupDriver = driver
		got := find(t, judgeNode(f), "cgroup driver")
		testutil.Assert(t, got.Status == want, "%q: %+v, want %s", driver, got, want)
	}
}

// Docker Engine 28.3 to 28.5 have API 1.51, and only 28.5 reads hosts.toml.
func TestMirrors(t *testing.T) {
	for version, test := range map[string]struct {
		api  string
		want checklist.Outcome
	}{
		"28.3.3": {"1.51", checklist.Warn}, "28.4.0": {"1.51", checklist.Warn}, "28.5.0": {"1.51", checklist.OK},
		"28.5.2+dfsg1": {"1.51", checklist.OK}, "29.0.0-rc.1": {"1.52", checklist.OK}, "dev": {"1.52", checklist.OK},
		"unknown": {"1.51", checklist.Warn}, "27.5.1": {"1.47", checklist.Warn},
	} {
		f := good()
		f.Mirrors = []string{"docker.io"}
		f.Engine.ServerVersion, f.Engine.APIVersion = version, test.api
		got := find(t, judgeNode(f), "mirrors")
		testutil.Assert(t, got.Status == test.want, "%s: %+v, want %s", version, got, test.want)
		f.Engine.ContainerdImageStore = false
		got = find(t, judgeNode(f), "mirrors")
		testutil.Assert(t, got.Status == checklist.Warn, "%s without the store: %+v", version, got)
	}
}

// The kubelet may name criadapter's socket by another path, or without unix://.
func TestKubeletsRuntime(t *testing.T) {
	for endpoint, same := range map[string]bool{
		"unix:///run/cri-dockerd.sock": true, "unix:///var/run/cri-dockerd.sock": true, "/run/cri-dockerd.sock": true,
		"unix:///run/criadapter/criadapter.sock": false,
	} {
		f := good()
		f.Config.Endpoint, f.Kubelet.RuntimeEndpoint = "unix:///run/cri-dockerd.sock", endpoint
		report := judgeNode(f)
		testutil.Equal(t, report.Warnings == 0, same, "%s: %+v", endpoint, report.Findings)
	}
}

func TestAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"5.12.0": true, "5.12": true, "5.13-rc1": true, "6.1.0-13-amd64": true, "10.0": true, "5.12-fc": true,
		"5.11.99": false, "4.19.0": false, "5": false, "": false, "x.y": false, "5.x": false,
	} {
		testutil.Equal(t, atLeast(release, 5, 12), want, "%q", release)
	}
}
