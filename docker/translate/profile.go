//lint:file-ignore SA1019 older kubelets set the deprecated fields only

package translate

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Values of the deprecated profile fields, which older kubelets send.
const (
	profileRuntimeDefault = "runtime/default"
	profileDockerDefault  = "docker/default"
	profileUnconfined     = "unconfined"
	profileLocalhost      = "localhost/"
)

// profile is a security profile from either of two fields.
type profile struct {
	// field is the path of the request's field that has the profile.
	field string
	// given is false if neither field is set.
	given     bool
	kind      runtimeapi.SecurityProfile_ProfileType
	localhost string
}

// profileFields are a profile's field and its deprecated predecessor.
type profileFields struct {
	name           string
	value          *runtimeapi.SecurityProfile
	deprecatedName string
	deprecated     string
}

// resolve returns the profile of the newer field if it is set, because kubelets set both fields.
func (p profileFields) resolve() (profile, error) {
	if p.value == nil {
		return parseProfile(p.deprecatedName, p.deprecated)
	}
	out := profile{field: p.name, given: true, kind: p.value.GetProfileType()}
	switch out.kind {
	case runtimeapi.SecurityProfile_RuntimeDefault, runtimeapi.SecurityProfile_Unconfined:
		if p.value.GetLocalhostRef() != "" {
			return profile{}, invalid(p.name+".localhost_ref", "goes with the profile type Localhost only")
		}
	case runtimeapi.SecurityProfile_Localhost:
		out.localhost = strings.TrimPrefix(p.value.GetLocalhostRef(), profileLocalhost)
		if out.localhost == "" {
			return profile{}, invalid(p.name+".localhost_ref", "is empty, name the profile")
		}
	default:
		return profile{}, invalid(p.name+".profile_type", "%d is not a profile type", int32(out.kind))
	}
	return out, nil
}

// seccompOf returns the seccomp profile of a sandbox or container. field is the path of the security context, here and
// below.
func seccompOf(field string, sc interface {
	GetSeccomp() *runtimeapi.SecurityProfile
	GetSeccompProfilePath() string
}) (profile, error) {
	return profileFields{
		name: field + ".seccomp", value: sc.GetSeccomp(),
		deprecatedName: field + ".seccomp_profile_path", deprecated: sc.GetSeccompProfilePath(),
	}.resolve()
}

// sandboxApparmor returns the AppArmor profile of a sandbox, which has no
// deprecated field.
func sandboxApparmor(field string, sc *runtimeapi.LinuxSandboxSecurityContext) (profile, error) {
	return profileFields{name: field + ".apparmor", value: sc.GetApparmor()}.resolve()
}

// containerApparmor returns the AppArmor profile of a container.
func containerApparmor(field string, sc *runtimeapi.LinuxContainerSecurityContext) (profile, error) {
	return profileFields{
		name: field + ".apparmor", value: sc.GetApparmor(),
		deprecatedName: field + ".apparmor_profile", deprecated: sc.GetApparmorProfile(),
	}.resolve()
}

// parseProfile reads a deprecated field.
func parseProfile(field, text string) (profile, error) {
	out := profile{field: field, given: text != ""}
	switch {
	case text == "", text == profileRuntimeDefault, text == profileDockerDefault:
		out.kind = runtimeapi.SecurityProfile_RuntimeDefault
	case text == profileUnconfined:
		out.kind = runtimeapi.SecurityProfile_Unconfined
	case strings.HasPrefix(text, profileLocalhost) && len(text) > len(profileLocalhost):
		out.kind = runtimeapi.SecurityProfile_Localhost
		out.localhost = strings.TrimPrefix(text, profileLocalhost)
	default:
		return profile{}, invalid(field, "%q is neither %s, %s nor %sNAME", text, profileRuntimeDefault,
			profileUnconfined, profileLocalhost)
	}
	return out, nil
}
