package admission

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/component-helpers/node/util/sysctl"
)

// safeSysctls affect only their own pod, so every pod may set them.
func safeSysctls() []string {
	return []string{
		"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
		"net.ipv4.ping_group_range",
		"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
		"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
	}
}

// checkSysctls rejects unsafe sysctls that the node's administrator did not allow, and sysctls of a namespace that the
// pod shares with the node. The messages are the kubelet's.
func checkSysctls(in *input) *Rejection {
	if in.Pod.Spec.SecurityContext == nil {
		return nil
	}
	allowed := slices.Concat(safeSysctls(), in.AllowedSysctls)
	for _, one := range in.Pod.Spec.SecurityContext.Sysctls {
		name := sysctl.NormalizeName(one.Name)
		if !slices.ContainsFunc(allowed, func(pattern string) bool { return matches(name, pattern) }) {
			return &Rejection{reasonSysctl, fmt.Sprintf("forbidden sysctl: %q not allowlisted", name)}
		}
		namespace, _, _ := sysctl.GetNamespace(name)
		if namespace == sysctl.NetNamespace && in.Pod.Spec.HostNetwork ||
			namespace == sysctl.IPCNamespace && in.Pod.Spec.HostIPC {
			return &Rejection{reasonSysctl,
				fmt.Sprintf("forbidden sysctl: %q not allowed with host %s enabled", name, namespace)}
		}
	}
	return nil
}

// matches reports whether the pattern is the name, or a prefix of the name followed by *.
func matches(name, pattern string) bool {
	pattern = sysctl.NormalizeName(pattern)
	prefix, begins := strings.CutSuffix(pattern, "*")
	return pattern == name || begins && strings.HasPrefix(name, prefix)
}
