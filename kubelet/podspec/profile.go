package podspec

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// seccomp returns the container's or the pod's seccomp profile. Profiles of type Localhost are files below the
// directory seccomp in the kubelet's root.
func (g *Generator) seccomp(pod *v1.PodSecurityContext, own *v1.SecurityContext) (*runtimeapi.SecurityProfile, error) {
	profile := cmp.Or(own.SeccompProfile, pod.SeccompProfile)
	if profile == nil {
		profile = &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined}
		if g.opts.SeccompDefault {
			profile.Type = v1.SeccompProfileTypeRuntimeDefault
		}
	}
	switch profile.Type {
	case v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.SeccompProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || !filepath.IsLocal(*profile.LocalhostProfile) {
			return nil, fmt.Errorf(
				"seccompProfile.localhostProfile: a path below the kubelet's directory of profiles is required: %w",
				errdefs.ErrInvalidArgument)
		}
		return &runtimeapi.SecurityProfile{
			ProfileType:  runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: filepath.Join(g.opts.RootDir, "seccomp", *profile.LocalhostProfile),
		}, nil
	default:
		return nil, fmt.Errorf("seccompProfile.type: %q is not a type: %w", profile.Type, errdefs.ErrInvalidArgument)
	}
}

// appArmor returns the AppArmor profile of the container, of the pod or of the old annotation. Nil means the runtime's
// default.
func appArmor(in ContainerInput) (*runtimeapi.SecurityProfile, error) {
	profile := cmp.Or(containerSecurity(in.Container).AppArmorProfile, podSecurity(in.Pod).AppArmorProfile)
	if profile == nil {
		profile = annotatedAppArmor(
			in.Pod.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+in.Container.Name])
	}
	if profile == nil {
		return nil, nil
	}
	switch profile.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile == nil || *profile.LocalhostProfile == "" {
			return nil, fmt.Errorf("appArmorProfile.localhostProfile: it is required for the type Localhost: %w",
				errdefs.ErrInvalidArgument)
		}
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: *profile.LocalhostProfile}, nil
	default:
		return nil, fmt.Errorf("appArmorProfile.type: %q is not a type: %w", profile.Type, errdefs.ErrInvalidArgument)
	}
}

// annotatedAppArmor reads the annotation's three forms, and ignores other values, as the API server does.
func annotatedAppArmor(value string) *v1.AppArmorProfile {
	switch name, local := strings.CutPrefix(value, v1.DeprecatedAppArmorBetaProfileNamePrefix); {
	case value == v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	case value == v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	case local:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	default:
		return nil
	}
}

// oldAppArmor returns a profile in the form of the deprecated field.
func oldAppArmor(profile *runtimeapi.SecurityProfile) string {
	switch {
	case profile == nil:
		return ""
	case profile.GetProfileType() == runtimeapi.SecurityProfile_RuntimeDefault:
		return v1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case profile.GetProfileType() == runtimeapi.SecurityProfile_Unconfined:
		return v1.DeprecatedAppArmorBetaProfileNameUnconfined
	default:
		return v1.DeprecatedAppArmorBetaProfileNamePrefix + profile.GetLocalhostRef()
	}
}
