package translate

import (
	"slices"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// A container has its pod's SELinux level, unless it names a level.
func TestContainersHaveThePodsLevel(t *testing.T) {
	const label = "system_u:system_r:container_t:s0:c7,c8"
	target := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET, TargetId: strings.Repeat("a", 64)}
	for _, tc := range []struct {
		name       string
		sc         *runtimeapi.LinuxContainerSecurityContext
		needsLabel bool
		want       []string
	}{
		{"nothing", &runtimeapi.LinuxContainerSecurityContext{}, false, nil},
		{"empty options", &runtimeapi.LinuxContainerSecurityContext{SelinuxOptions: &runtimeapi.SELinuxOption{}},
			false, nil},
		{"a type", &runtimeapi.LinuxContainerSecurityContext{
			SelinuxOptions: &runtimeapi.SELinuxOption{Type: "t"},
		}, true, []string{"label=type:t", "label=level:s0:c7,c8"}},
		{"a type and a level", &runtimeapi.LinuxContainerSecurityContext{
			SelinuxOptions: &runtimeapi.SELinuxOption{Type: "t", Level: "s0:c1,c2"},
		}, false, []string{"label=type:t", "label=level:s0:c1,c2"}},
		{"another's processes", &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: target}, true,
			[]string{"label=user:system_u", "label=role:system_r", "label=type:container_t", "label=level:s0:c7,c8"}},
		{"privileged", &runtimeapi.LinuxContainerSecurityContext{
			Privileged: true, SelinuxOptions: &runtimeapi.SELinuxOption{Type: "t"}, NamespaceOptions: target,
		}, false, nil},
	} {
		in := containerInput()
		in.Features = newEngine()
		in.Sandbox.Config.Linux.SecurityContext.Privileged = true
		in.Config.Linux.SecurityContext = tc.sc
		got := NeedsProcessLabel(in.Config, in.Features)
		testutil.Assert(t, got == tc.needsLabel, "%s: needs the label: %t", tc.name, got)
		testutil.Assert(t, !NeedsProcessLabel(in.Config, oldEngine()), "%s, without SELinux: needs the label", tc.name)
		if got {
			in.Sandbox.ProcessLabel = label
		}
		labels := labelsOf(mustContainer(t, in).Host.SecurityOpt)
		testutil.Assert(t, slices.Equal(labels, tc.want), "%s: got %q, want %q", tc.name, labels, tc.want)
	}
}

// The sandbox container of a pod with the node's PID or IPC namespace has no label.
func TestContainerOfAPodWithoutLabel(t *testing.T) {
	in := containerInput()
	in.Features = newEngine()
	in.Config.Linux.SecurityContext.SelinuxOptions = &runtimeapi.SELinuxOption{Type: "t"}
	got := labelsOf(mustContainer(t, in).Host.SecurityOpt)
	testutil.Assert(t, slices.Equal(got, []string{"label=type:t"}), "got %q", got)
}

func labelsOf(options []string) []string {
	var labels []string
	for _, option := range options {
		if strings.HasPrefix(option, labelOption) {
			labels = append(labels, option)
		}
	}
	return labels
}
