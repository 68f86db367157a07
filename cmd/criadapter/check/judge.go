package check

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/checklist"
	"github.com/criadapter/criadapter/internal/config"
)

// judgeNode turns the facts into a report. The report depends on the facts alone.
func judgeNode(f facts) checklist.Report {
	var report checklist.Report
	for _, group := range []struct {
		name  string
		judge func(*checklist.Group, facts)
	}{
		{"engine", judgeEngine},
		{"cgroups and kubelet", judgeKubelet},
		{"network", judgeNetwork},
		{"sockets and rights", judgeSockets},
		{"disks", judgeDisks},
		{"kernel", judgeKernel},
		{"limits", judgeLimits},
		{"left behind", judgeLeftovers},
	} {
		group.judge(report.Group(group.name), f)
	}
	return report
}

func judgeEngine(j *checklist.Group, f facts) {
	if f.EngineErr != nil {
		j.Fail("engine", "start it (systemctl status docker), or name its socket with --docker-endpoint", "%v",
			f.EngineErr)
		return
	}
	e := f.Engine
	j.OK("engine", "Docker Engine %s, API %s, on this machine at %s", e.ServerVersion, e.APIVersion,
		f.Config.DockerEndpoint)
	store := "image store of the engine"
	if e.ContainerdImageStore {
		store = "image store of containerd"
	}
	switch e.StorageDriver {
	case "vfs":
		j.Warn("image store", `set "storage-driver": "overlay2" in daemon.json; images have to be pulled again`,
			"%s, driver vfs: each container is a full copy of its image", store)
	case "devicemapper", "aufs", "overlay":
		j.Warn("image store", `move to "storage-driver": "overlay2" before the engine's next major version`,
			"%s, driver %s, which newer engines lack", store, e.StorageDriver)
	default:
		j.OK("image store", "%s, driver %s, below %s", store, e.StorageDriver, e.Root)
	}
	if e.LiveRestore {
		j.OK("live restore", "on: pods survive a restart of the engine")
	} else {
		j.Warn("live restore",
			`set "live-restore": true in daemon.json and reload the engine (systemctl reload docker)`,
			"off: every pod ends when the engine restarts")
	}
	if e.NegativeOOMScore {
		j.OK("OOM scores", "containers can get negative scores")
	} else {
		j.Warn("OOM scores", "run dockerd with CAP_SYS_RESOURCE",
			"the engine lacks CAP_SYS_RESOURCE: negative scores become 0, so the kernel may kill guaranteed pods "+
				"like any others")
	}
	j.OK("runtimes", "%s; the default is %s", strings.Join(e.Runtimes, ", "), e.DefaultRuntime)
	judgeOCIRuntime(j, f)
	judgeMirrors(j, f)
	judgeArtifacts(j, f)
	judgeImagePolicy(j, f)
	judgeNRI(j, f)
	if f.Config.NetworkPlugin == config.NetworkCNI {
		judgeSandboxedRuntimes(j, f)
	}
}

// judgeSandboxedRuntimes reports which runtimes with a network stack of their own can join a CNI network.
func judgeSandboxedRuntimes(j *checklist.Group, f facts) {
	e := f.Engine
	if docker.OCIRuntimeMode(f.Config.OCIRuntime) != docker.OCIRuntimeOff && f.OCIRuntimeErr == nil {
		e.OCIRuntime = f.OCIRuntime
	}
	var join []string
	for _, name := range e.SandboxedRuntimes {
		switch {
		case e.JoinsCNI(name):
			join = append(join, name)
		case name == e.DefaultRuntime:
			j.Fail("default runtime",
				`set "default-runtime": "runc" in daemon.json, or set the present default up for CNI (docs/gvisor.md)`,
				"%s has a network stack or machine of its own, which cannot join a CNI network", name)
		default:
			hint := "pods on the node's network need no CNI"
			if slices.Contains(e.PodSandboxRuntimes, name) && e.OwnShims[name] == "" {
				hint = "pods on the node's network need --network=host in its runtimeArgs" // gVisor's runsc
			}
			j.Warn("runtime "+name, "see docs/gvisor.md for what the runtime needs; "+hint,
				"its pods cannot join the CNI network")
		}
	}
	if len(join) > 0 {
		j.OK("pod sandboxes", "pods of %s join the CNI network, in one sandbox each", strings.Join(join, ", "))
	}
}

// readsHosts reports whether an engine reads hosts.toml, as Docker Engine 28.5 and newer do with the containerd image
// store. API version 1.51 is no proof, because Docker Engine 28.3 has this API version, too. API version 1.52 is proof
// even if the engine's own version is not, for example in a build from a branch.
func readsHosts(e docker.Features) bool {
	return e.ContainerdImageStore && (atLeast(e.ServerVersion, 28, 5) || e.Supports("1.52"))
}

// judgeMirrors reports whether the engine reads the hosts.toml of each registry that has one.
func judgeMirrors(j *checklist.Group, f facts) {
	const name = "mirrors"
	switch hosts := strings.Join(f.Mirrors, ", "); {
	case hosts == "":
	case readsHosts(f.Engine):
		j.OK(name, "of %s, in /etc/docker/certs.d", hosts)
	default:
		j.Warn(name, `set "features": {"containerd-snapshotter": true} in daemon.json of Docker Engine 28.5 or newer; `+
			`for Docker Hub alone, "registry-mirrors" in daemon.json works with any engine`,
			"this engine ignores hosts.toml in /etc/docker/certs.d, of %s", hosts)
	}
	if hosts := strings.Join(f.ContainerdMirrors, ", "); hosts != "" {
		j.Warn(name, "copy the directories to /etc/docker/certs.d",
			"the engine does not read /etc/containerd/certs.d, which has a hosts.toml of %s", hosts)
	}
}

// judgeArtifacts reports whether the engine or criadapter keeps OCI artifacts.
func judgeArtifacts(j *checklist.Group, f facts) {
	if f.Engine.ContainerdImageStore {
		j.OK("OCI artifacts", "the engine keeps them")
		return
	}
	j.OK("OCI artifacts", "criadapter keeps them below %s", filepath.Join(f.Config.RootDirectory, "artifacts"))
}

// judgeImagePolicy reports whether the server could decide on images.
func judgeImagePolicy(j *checklist.Group, f facts) {
	const name = "image policy"
	switch {
	case f.Config.ImagePolicy == "":
		j.OK(name, "none: all images may run (--image-policy)")
	case f.ImagePolicyErr != nil:
		j.Fail(name, "fix the file: until then no image is pulled, and no container is created", "%v",
			f.ImagePolicyErr)
	default:
		j.OK(name, "%s", f.Config.ImagePolicy)
	}
}

// judgeNRI reports whether NRI plugins can connect, and whether they can adjust more than limits.
func judgeNRI(j *checklist.Group, f facts) {
	const name = "NRI"
	switch {
	case f.Config.NRI != config.NRIEnabled:
		j.OK(name, "off (--nri): no plugin adjusts containers")
	case f.NRIErr != nil:
		j.Fail(name, "fix the directory: until then no pod and no container is made", "%v", f.NRIErr)
	case docker.OCIRuntimeMode(f.Config.OCIRuntime) == docker.OCIRuntimeOff || f.OCIRuntime.Name == "":
		j.Warn(name, "install criadapter-oci (docs/oci-runtime.md)",
			"plugins at %s can change only limits: there is no OCI runtime criadapter-oci", f.Config.NRISocket)
	default:
		j.OK(name, "plugins connect to %s; started from %s: %s", f.Config.NRISocket, f.Config.NRIPluginDir,
			cmp.Or(strings.Join(f.NRIPlugins, ", "), "none"))
	}
}

// judgeOCIRuntime reports whether the server would find a usable criadapter-oci. Unlike the server, the check does not
// test criadapter-oci with a container.
func judgeOCIRuntime(j *checklist.Group, f facts) {
	const name = "OCI runtime"
	switch mode, found := docker.OCIRuntimeMode(f.Config.OCIRuntime), f.OCIRuntime; {
	case mode == docker.OCIRuntimeOff:
		j.OK(name, "criadapter-oci is not used (--oci-runtime=off)")
	case f.OCIRuntimeErr != nil && mode == docker.OCIRuntimeRequired:
		j.Fail(name, "fix the runtimes in daemon.json and reload the engine, or use --oci-runtime=auto", "%v",
			f.OCIRuntimeErr)
	case f.OCIRuntimeErr != nil:
		j.Warn(name, "fix the runtimes in daemon.json and reload the engine, or use --oci-runtime=off",
			"criadapter works without it: %v", f.OCIRuntimeErr)
	case found.Name == "" && mode == docker.OCIRuntimeRequired:
		do :=
			`add "runtimes": {"criadapter": {"path": "/usr/bin/criadapter-oci"}} to daemon.json (systemctl ` +
				`reload docker), or use --oci-runtime=auto`
		j.Fail(name, do,
			"the engine has no runtime whose program is criadapter-oci, which --oci-runtime=required demands")
	case found.Name == "":
		j.OK(name, "no criadapter-oci: fields that the Docker API lacks are refused")
	default:
		j.OK(name, "criadapter-oci as %s, notes in %s; criadapter tests it when it connects", found.Name, found.Notes)
	}
}

func judgeKubelet(j *checklist.Group, f facts) {
	k := f.Kubelet
	if f.EngineErr == nil {
		judgeCgroups(j, f)
	}
	switch {
	case k.Err != nil:
		j.Fail("kubelet's config", "correct it, or name the right file with --kubelet-config", "%v", k.Err)
		return
	case k.File == "":
		j.OK("kubelet's config", "none here; name it with --kubelet-config to compare it with the engine")
		return
	}
	j.OK("kubelet's config", "%s", k.File)
	if k.RuntimeEndpoint != "" && f.Config.SocketPath() != "" &&
		config.CleanSocket(k.RuntimeEndpoint) != config.CleanSocket(f.Config.Endpoint) {
		do := "set containerRuntimeEndpoint: " + f.Config.Endpoint + " in " + k.File
		if k.FlagsFile != "" {
			do = "set --container-runtime-endpoint=" + f.Config.Endpoint + " in " + k.FlagsFile
		}
		j.Warn("kubelet's runtime", do+" and restart the kubelet", "it uses %s", k.RuntimeEndpoint)
	}
	switch {
	case f.Kernel.SwapOn && k.FailSwapOn:
		j.Fail("swap", "turn it off (swapoff -a, and /etc/fstab), or set failSwapOn: false in "+k.File,
			"swap is on, and the kubelet does not start with it")
	case f.Kernel.SwapOn && k.LimitedSwap && f.EngineErr == nil && !f.Engine.SwapLimit:
		j.Warn("swap", "boot with swapaccount=1", "the kernel does not account swap, so LimitedSwap cannot limit it")
	}
}

func judgeCgroups(j *checklist.Group, f facts) {
	switch k := f.Kubelet; {
	case f.Engine.CgroupVersion == 1 && k.File != "" && k.FailCgroupV1:
		j.Fail("cgroup version", "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in "+k.File,
			"1, with which this kubelet does not start")
	case f.Engine.CgroupVersion == 1:
		j.Warn("cgroup version", "boot with systemd.unified_cgroup_hierarchy=1",
			"1, which newer kubelets refuse by default")
	default:
		j.OK("cgroup version", "%d", f.Engine.CgroupVersion)
	}
	// Kubelets take the driver from RuntimeConfig, by default since 1.31 and always since 1.34 (KEP-4033). The driver
	// in the kubelet's file has no effect then.
	switch driver := f.Kubelet.CgroupDriver; {
	case driver == "" || f.Kubelet.Err != nil:
		j.OK("cgroup driver", "%s, which kubelets from 1.31 ask criadapter for", f.Engine.CgroupDriver)
	case driver != f.Engine.CgroupDriver:
		do := fmt.Sprintf("set cgroupDriver: %s in %s and restart the kubelet, if it is older than 1.34",
			f.Engine.CgroupDriver, f.Kubelet.File)
		j.Warn("cgroup driver", do,
			"the engine's is %s and the kubelet's file says %s: kubelets from 1.34 take the engine's; "+
				"with older ones, pods may not start, or their limits may not hold", f.Engine.CgroupDriver, driver)
	default:
		j.OK("cgroup driver", "%s, the kubelet's as well", driver)
	}
}

func judgeNetwork(j *checklist.Group, f facts) {
	if f.Config.NetworkPlugin != config.NetworkCNI {
		if fault := f.Engine.BridgeFault; fault != "" {
			j.Fail("network", "change daemon.json, or use --network-plugin=cni", "%s", fault)
			return
		}
		j.OK("network", "Docker's default bridge: CNI is not used")
		return
	}
	n := f.Network
	for _, skipped := range n.Config.Skipped {
		j.Warn("skipped file", "correct it, or remove it", "%s: %s", skipped.File, skipped.Reason)
	}
	if n.Config.Name == "" {
		j.Fail("CNI configuration",
			"Flannel, Calico or Cilium install one in a cluster; a node without a cluster can use "+
				"--network-plugin=bridge", "%s", words(n.Err))
		return
	}
	version := cmp.Or(n.Config.CNIVersion, "0.1.0") // as the CNI specification says
	j.OK("CNI configuration", "network %s in %s, CNI %s", n.Config.Name, n.Config.File, version)
	for _, p := range n.Plugins {
		name := "plugin " + p.Type
		switch {
		case p.Path == "":
			j.Fail(name, "install the CNI plugins there", "%s", words(p.Err))
		case p.Err != nil:
			j.Fail(name, "make it executable (chmod +x "+p.Path+"), or install it again for this machine",
				"%s does not run: %v", p.Path, p.Err)
		case !slices.Contains(p.Versions, version):
			j.Fail(name, "install a newer one, or lower cniVersion in "+n.Config.File,
				"%s supports CNI %s, the configuration has cniVersion %s", p.Path, strings.Join(p.Versions, ", "),
				version)
		default:
			j.OK(name, "%s, CNI up to %s", p.Path, p.Versions[len(p.Versions)-1])
		}
	}
	if n.Err != nil && !j.Failed() {
		j.Fail("network status", "look at the log of the network plugin's own pods", "%s", words(n.Err))
	}
	if !f.Kernel.IPForward {
		j.Fail("IP forwarding", "sysctl -w net.ipv4.ip_forward=1, and in /etc/sysctl.d for good",
			"net.ipv4.ip_forward is 0: pods reach no other machine")
	} else {
		j.OK("IP forwarding", "on")
	}
	if f.Kernel.BridgeCall == "0" {
		j.Warn("bridged traffic", "sysctl -w net.bridge.bridge-nf-call-iptables=1",
			"net.bridge.bridge-nf-call-iptables is 0: services may not reach pods of the same node")
	}
}

// words returns an error's text without errdefs.ErrUnavailable's suffix, which is for clients of CRI.
func words(err error) string {
	return strings.TrimSuffix(err.Error(), ": "+errdefs.ErrUnavailable.Error())
}
