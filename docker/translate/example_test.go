package translate_test

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// A pod becomes the specification of its sandbox container, and its metadata can be read back from name and labels.
func ExampleSandbox() {
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1234"},
		Hostname: "web",
	}
	spec, err := translate.Sandbox(translate.SandboxInput{
		Config: config, Image: "pause",
		Features: docker.Features{APIVersion: "1.41", CgroupVersion: 2, CgroupDriver: "systemd"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(spec.Name, spec.Config.NetworkDisabled)

	read, err := translate.PodConfig(spec.Config.Labels, spec.Name)
	fmt.Println(read.GetMetadata().GetName(), read.GetMetadata().GetNamespace(), err)
	// Output:
	// k8s_POD_web_default_1234_0 true
	// web default <nil>
}

// A setting that the connected engine does not support is refused. The error begins with the field.
func ExampleContainer_refused() {
	_, err := translate.Container(translate.ContainerInput{
		Sandbox: translate.SandboxRef{
			ID: "4f6c1ab0e9d24f6c1ab0e9d24f6c1ab0e9d24f6c1ab0e9d24f6c1ab0e9d24f6c",
			Config: &runtimeapi.PodSandboxConfig{
				Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1234"}},
		},
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
			Image:    &runtimeapi.ImageSpec{Image: "busybox"},
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
			}},
		},
		ImageID: "sha256:4f6c1ab0e9d2", Features: docker.Features{APIVersion: "1.41"},
	})
	field, reason, _ := strings.Cut(err.Error(), ": ")
	fmt.Println(errdefs.IsNotImplemented(err), field)
	fmt.Println(reason)
	// Output:
	// true config.linux.security_context.supplemental_groups_policy
	// Strict needs the OCI runtime criadapter-oci in front of the engine's default one (see docs/oci-runtime.md)
}
