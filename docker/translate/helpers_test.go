package translate

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

const sandboxID = "5b0ed1ab1db1e2b6ebd2d0c5d0fef2c53a4d3e6a76c6b9a2d3a0b3b3f0b7c9d1"

// oldEngine is Docker 20.10 on cgroup v1. newEngine is Docker 29 on cgroup v2 with systemd, AppArmor and SELinux. No
// real host has both AppArmor and SELinux.
func oldEngine() docker.Features {
	return docker.Features{
		ServerVersion: "20.10.24", APIVersion: "1.41",
		CgroupVersion: 1, CgroupDriver: "cgroupfs",
		Runtimes: []string{"runc"}, DefaultRuntime: "runc",
		Seccomp: true, SwapLimit: true, NegativeOOMScore: true,
		Limits: engineLimits(),
	}
}

// engineLimits are some of the limits of a dockerd that systemd started.
func engineLimits() []docker.Limit {
	return []docker.Limit{
		{Name: "core", Soft: 0, Hard: docker.Unlimited},
		{Name: "memlock", Soft: 8 << 20, Hard: 8 << 20},
		{Name: "nofile", Soft: 524288, Hard: 524288},
		{Name: "nproc", Soft: 96365, Hard: 96365},
	}
}

func newEngine() docker.Features {
	return docker.Features{
		ServerVersion: "29.0.0", APIVersion: "1.52",
		CgroupVersion: 2, CgroupDriver: "systemd",
		Runtimes: []string{"kata", "runc"}, DefaultRuntime: "runc", RecursiveReadOnly: []string{"runc"},
		Seccomp: true, AppArmor: true, SELinux: true, CDI: true, SwapLimit: true, NegativeOOMScore: true,
		Limits: engineLimits(),
	}
}

func podMetadata() *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{Name: "web-0", Namespace: "shop", Uid: "6f1c7a3e-0b0e-4c39-9a44-1d5b1f6a2d10",
		Attempt: 2}
}

// sandboxInput is a valid pod. A test changes one thing in it.
func sandboxInput() SandboxInput {
	return SandboxInput{
		Config: &runtimeapi.PodSandboxConfig{
			Metadata:     podMetadata(),
			Hostname:     "web-0",
			LogDirectory: "/var/log/pods/shop_web-0_6f1c7a3e",
			Linux: &runtimeapi.LinuxPodSandboxConfig{
				SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
					NamespaceOptions: &runtimeapi.NamespaceOption{}},
			},
		},
		Image:    "sha256:pause",
		Features: oldEngine(),
	}
}

func containerInput() ContainerInput {
	return ContainerInput{
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 1},
			Image:    &runtimeapi.ImageSpec{Image: "sha256:app"},
			LogPath:  "app/1.log",
			Linux: &runtimeapi.LinuxContainerConfig{
				Resources: &runtimeapi.LinuxContainerResources{},
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
					NamespaceOptions: &runtimeapi.NamespaceOption{}},
			},
		},
		Sandbox:  SandboxRef{ID: sandboxID, Config: sandboxInput().Config},
		ImageID:  "sha256:app",
		Features: oldEngine(),
	}
}

func mustSandbox(t testing.TB, in SandboxInput) docker.ContainerSpec {
	t.Helper()
	spec, err := Sandbox(in)
	testutil.Must(t, err)
	return spec
}

func mustContainer(t testing.TB, in ContainerInput) docker.ContainerSpec {
	t.Helper()
	spec, err := Container(in)
	testutil.Must(t, err)
	return spec
}

// wantRefusal checks that a request is refused as invalid, and that the error names the field first.
func wantRefusal(t *testing.T, err error, field string) {
	t.Helper()
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), field+": "),
		"the error is %v, want an invalid argument that names %s first", err, field)
}

func int64Value(v int64) *runtimeapi.Int64Value { return &runtimeapi.Int64Value{Value: v} }
