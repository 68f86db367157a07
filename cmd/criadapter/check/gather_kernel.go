package check

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"
)

// readKernel reads the kernel's files below root/proc and root/sys. root is "/" except in tests.
func readKernel(root string) kernelFacts {
	text := func(path string) string {
		raw, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(raw))
	}
	number := func(path string) int64 {
		n, err := strconv.ParseInt(text(path), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	k := kernelFacts{
		Release:           text("proc/sys/kernel/osrelease"),
		MaxUserNamespaces: number("proc/sys/user/max_user_namespaces"),
		AppArmor:          text("sys/module/apparmor/parameters/enabled") == "Y",
		SELinux:           text("sys/fs/selinux/enforce") != "",
		Seccomp: text("proc/sys/kernel/seccomp/actions_avail") != "" ||
			strings.Contains(text("proc/self/status"), "Seccomp:"),
		PSI:              text("proc/pressure/cpu") != "",
		SwapOn:           strings.Count(text("proc/swaps"), "\n") > 0,
		IPForward:        text("proc/sys/net/ipv4/ip_forward") == "1",
		BridgeCall:       text("proc/sys/net/bridge/bridge-nf-call-iptables"),
		InotifyInstances: number("proc/sys/fs/inotify/max_user_instances"),
		InotifyWatches:   number("proc/sys/fs/inotify/max_user_watches"),
		PIDMax:           number("proc/sys/kernel/pid_max"),
		FileMax:          number("proc/sys/fs/file-max"),
	}
	// ns_last_pid exists only in kernels with CONFIG_CHECKPOINT_RESTORE, which CRIU needs.
	k.CRIU = text("proc/sys/kernel/ns_last_pid") != "" && installed(root, "criu")
	return k
}

// installed looks for a program in root's directories.
func installed(root, program string) bool {
	for _, dir := range []string{"usr/sbin", "usr/bin", "usr/local/sbin", "usr/local/bin", "sbin", "bin"} {
		if info, err := os.Stat(filepath.Join(root, dir, program)); err == nil && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// sysResource is the capability to lower an oom_score_adj. criadapter works without it.
const sysResource = "CAP_SYS_RESOURCE"

// missingCapabilities returns the capabilities that criadapter uses and this process lacks.
func missingCapabilities() []string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return nil
	}
	var missing []string
	for _, capability := range []struct {
		name string
		bit  int
	}{
		{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN}, {"CAP_NET_ADMIN", unix.CAP_NET_ADMIN},
		{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE},
		{"CAP_DAC_OVERRIDE", unix.CAP_DAC_OVERRIDE}, {"CAP_CHOWN", unix.CAP_CHOWN}, {"CAP_FOWNER", unix.CAP_FOWNER},
		{sysResource, unix.CAP_SYS_RESOURCE},
	} {
		if sets[capability.bit/32].Effective&(1<<(capability.bit%32)) == 0 {
			missing = append(missing, capability.name)
		}
	}
	return missing
}

// readKubelet reads a kubelet's configuration: the named file, or kubeadm's if there is one.
func readKubelet(file string) kubeletFacts {
	named := file != ""
	if !named {
		file = kubeadmKubelet
	}
	raw, err := os.ReadFile(file)
	if os.IsNotExist(err) && !named {
		return kubeletFacts{}
	}
	k := kubeletFacts{File: file, Err: err}
	if err == nil {
		k.Err = k.parse(raw)
	}
	if k.Err == nil {
		k.Err = k.addFlags(filepath.Join(filepath.Dir(file), kubeadmFlags))
	}
	return k
}

// kubeadmFlags is kubeadm's file with flags of the kubelet, in the directory of the kubelet's configuration. Before
// v1.34, kubeadm names the kubelet's runtime there.
const kubeadmFlags = "kubeadm-flags.env"

// runtimeFlag finds the kubelet's runtime among kubeadm's flags.
var runtimeFlag = regexp.MustCompile(`(?m)^KUBELET_KUBEADM_ARGS=.*--container-runtime-endpoint[= ]["']?([^\s"']+)`)

// addFlags reads kubeadm's flags, which override the configuration file. The file need not exist.
func (k *kubeletFacts) addFlags(file string) error {
	raw, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if found := runtimeFlag.FindSubmatch(raw); found != nil {
		k.RuntimeEndpoint, k.FlagsFile = string(found[1]), file
	}
	return err
}

// parse reads the relevant settings of a KubeletConfiguration, with the kubelet's defaults.
func (k *kubeletFacts) parse(raw []byte) error {
	var config struct {
		CgroupDriver     string `json:"cgroupDriver"`
		RuntimeEndpoint  string `json:"containerRuntimeEndpoint"`
		FailSwapOn       *bool  `json:"failSwapOn"`
		FailCgroupV1     bool   `json:"failCgroupV1"`
		PodLogsDirectory string `json:"podLogsDir"`
		MemorySwap       struct {
			SwapBehavior string `json:"swapBehavior"`
		} `json:"memorySwap"`
	}
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return err
	}
	k.CgroupDriver, k.RuntimeEndpoint, k.PodLogsDirectory = config.CgroupDriver, config.RuntimeEndpoint,
		config.PodLogsDirectory
	k.FailSwapOn = config.FailSwapOn == nil || *config.FailSwapOn
	k.FailCgroupV1 = config.FailCgroupV1
	k.LimitedSwap = config.MemorySwap.SwapBehavior == "LimitedSwap"
	return nil
}
