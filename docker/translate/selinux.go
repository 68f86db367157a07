package translate

import (
	"cmp"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// NeedsProcessLabel reports whether the container needs SandboxRef.ProcessLabel. Docker gives most containers of a pod
// the sandbox container's SELinux label by itself. There are two exceptions:
//
//   - A container that names other parts of its label than the level gets a level of its own from Docker.
//   - A container that joins the PID namespace of a container with another label gets such a level, too, or is refused.
func NeedsProcessLabel(config *runtimeapi.ContainerConfig, f docker.Features) bool {
	sc := config.GetLinux().GetSecurityContext()
	if !f.SELinux || sc.GetPrivileged() {
		return false
	}
	if options := sc.GetSelinuxOptions(); namesLabel(options) {
		return options.GetLevel() == ""
	}
	ns := sc.GetNamespaceOptions()
	return ns.GetPid() == runtimeapi.NamespaceMode_TARGET && ns.GetIpc() == runtimeapi.NamespaceMode_POD
}

func namesLabel(o *runtimeapi.SELinuxOption) bool {
	return cmp.Or(o.GetUser(), o.GetRole(), o.GetType(), o.GetLevel()) != ""
}

// completeLabel returns the options with the level of the pod's label, or with the whole label if they name nothing.
// Without a label of the pod, they stay as they are.
func completeLabel(o *runtimeapi.SELinuxOption, pod string) *runtimeapi.SELinuxOption {
	parts := strings.SplitN(pod, ":", 4)
	if len(parts) < 4 {
		return o
	}
	if !namesLabel(o) {
		return &runtimeapi.SELinuxOption{User: parts[0], Role: parts[1], Type: parts[2], Level: parts[3]}
	}
	return &runtimeapi.SELinuxOption{
		User: o.GetUser(), Role: o.GetRole(), Type: o.GetType(), Level: cmp.Or(o.GetLevel(), parts[3]),
	}
}
