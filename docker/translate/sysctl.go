package translate

import (
	"maps"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// sysctls validates a pod's sysctls. Only sysctls of the pod's own namespaces may be set. Any other would change the
// node.
func sysctls(field string, values map[string]string, ns *runtimeapi.NamespaceOption) (map[string]string, error) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := checkSysctl(field, name, values[name]); err != nil {
			return nil, err
		}
		switch {
		case isNetworkSysctl(name):
			if ns.GetNetwork() == runtimeapi.NamespaceMode_NODE {
				return nil, invalid(field, "%q cannot be set on the host's network", name)
			}
		case isIPCSysctl(name):
			if ns.GetIpc() == runtimeapi.NamespaceMode_NODE {
				return nil, invalid(field, "%q cannot be set with the host's IPC namespace", name)
			}
		default:
			return nil, invalid(field, "%q is not namespaced, set it on the node", name)
		}
	}
	return maps.Clone(values), nil
}

// InterfaceSysctls returns the sysctls of a pod that belong to a network interface, except the loopback interface. They
// can be set only after CNI or the engine has made the interface. From API 1.48 on the engine refuses them as sysctls
// of a container.
func InterfaceSysctls(config *runtimeapi.PodSandboxConfig) map[string]string {
	values := maps.Clone(config.GetLinux().GetSysctls())
	maps.DeleteFunc(values, func(name, _ string) bool { return !isInterfaceSysctl(name) })
	return values
}

// isInterfaceSysctl reports whether name is net.FAMILY.conf.INTERFACE.* or net.FAMILY.neigh.INTERFACE.* of an interface
// that is not the loopback.
func isInterfaceSysctl(name string) bool {
	parts := strings.SplitN(name, ".", 5)
	if len(parts) < 5 || parts[0] != "net" || parts[2] != "conf" && parts[2] != "neigh" {
		return false
	}
	return !slices.Contains([]string{"all", "default", "lo"}, parts[3])
}

// checkSysctl refuses a name such as net.../../kernel.panic, whose file in /proc/sys is not below its prefix.
func checkSysctl(field, name, value string) error {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || strings.HasPrefix(part, "/") || strings.HasSuffix(part, "/") {
			return invalid(field, "%q is not the name of a sysctl, write it with dots", name)
		}
		for i := range len(part) {
			// Network interfaces may have a dot in their names, written /.
			if c := part[i]; !isAlphanumeric(c) && !strings.ContainsRune("-_/@:", rune(c)) {
				return invalid(field, "%q is not the name of a sysctl: %q", name, c)
			}
		}
	}
	return checkText(field, strings.ReplaceAll(value, "\t", " "))
}

func isNetworkSysctl(name string) bool { return strings.HasPrefix(name, "net.") }

// isIPCSysctl reports whether name is a sysctl of the IPC namespace, ipc_namespaces(7).
func isIPCSysctl(name string) bool {
	return strings.HasPrefix(name, "fs.mqueue.") || strings.HasPrefix(name, "kernel.shm") ||
		strings.HasPrefix(name, "kernel.msg") || name == "kernel.sem"
}
