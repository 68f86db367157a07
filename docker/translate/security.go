package translate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

const (
	capabilityPrefix   = "CAP_"
	apparmorOption     = "apparmor="
	apparmorUnconfined = apparmorOption + "unconfined"
	labelOption        = "label="
)

// noNewPrivileges sets the option to true or to false, because daemon.json may turn it on for all containers.
func noNewPrivileges(on bool) string { return "no-new-privileges=" + strconv.FormatBool(on) }

// sandboxSecurity sets the security options of a sandbox. The sandbox itself is never privileged. CRI's field only
// announces that containers of the pod may be privileged.
func sandboxSecurity(field string, in SandboxInput, host *container.HostConfig) error {
	sc := in.Config.GetLinux().GetSecurityContext()
	seccomp, err := seccompOf(field, sc)
	if err != nil {
		return err
	}
	// Without a profile, a sandbox gets the default profile, as in dockershim. Its program only waits, so no pod needs
	// it unconfined.
	seccompOptions, err := seccomp.seccomp(in.ReadProfile, in.Features)
	if err != nil {
		return err
	}
	apparmor, err := sandboxApparmor(field, sc)
	if err != nil {
		return err
	}
	apparmorOptions, err := apparmor.apparmor(in.ReadProfile, in.Features)
	if err != nil {
		return err
	}
	labels, err := selinuxOptions(field+".selinux_options", sc.GetSelinuxOptions())
	if err != nil {
		return err
	}
	host.ReadonlyRootfs = sc.GetReadonlyRootfs()
	host.SecurityOpt = slices.Concat([]string{noNewPrivileges(true)}, seccompOptions, apparmorOptions, labels)
	return nil
}

// containerSecurity sets the security options of a container.
func containerSecurity(field string, in ContainerInput, host *container.HostConfig, more *extra) error {
	sc := in.Config.GetLinux().GetSecurityContext()
	pod := in.Sandbox.Config.GetLinux()
	if sc.GetPrivileged() && pod != nil && !pod.GetSecurityContext().GetPrivileged() {
		return invalid(field+".privileged",
			"the pod was not created for privileged containers, set privileged in its security context too")
	}
	host.Privileged = sc.GetPrivileged()
	host.ReadonlyRootfs = sc.GetReadonlyRootfs()
	if err := capabilities(field+".capabilities", sc.GetCapabilities(), host, more); err != nil {
		return err
	}
	options, err := confinement(field, in, sc)
	if err != nil {
		return err
	}
	if err := completeSeccomp(field+".seccomp", options, more); err != nil {
		return err
	}
	host.SecurityOpt = append([]string{noNewPrivileges(sc.GetNoNewPrivs())}, options...)
	return paths(field, sc, host)
}

// confinement returns the options for seccomp, AppArmor and SELinux. Privileged containers have none of them (CRI
// text). Docker lifts them for privileged containers, too, but newer engines still apply a profile that the request
// names.
func confinement(field string, in ContainerInput, sc *runtimeapi.LinuxContainerSecurityContext) ([]string, error) {
	seccomp, err := seccompOf(field, sc)
	if err != nil {
		return nil, err
	}
	apparmor, err := containerApparmor(field, sc)
	if err != nil {
		return nil, err
	}
	labels, err := selinuxOptions(field+".selinux_options",
		completeLabel(sc.GetSelinuxOptions(), in.Sandbox.ProcessLabel))
	if err != nil {
		return nil, err
	}
	if sc.GetPrivileged() {
		seccomp = profile{given: true, kind: runtimeapi.SecurityProfile_Unconfined}
		apparmor, labels = seccomp, nil
	}
	if !seccomp.given {
		// "Default: "", which is identical with unconfined" (CRI text).
		seccomp.kind = runtimeapi.SecurityProfile_Unconfined
	}
	seccompOptions, err := seccomp.seccomp(in.ReadProfile, in.Features)
	if err != nil {
		return nil, err
	}
	apparmorOptions, err := apparmor.apparmor(in.ReadProfile, in.Features)
	if err != nil {
		return nil, err
	}
	return slices.Concat(seccompOptions, apparmorOptions, labels), nil
}

// apparmorProfiles is the file in which the kernel lists the loaded profiles, as "NAME (MODE)".
const apparmorProfiles = "/sys/kernel/security/apparmor/profiles"

// apparmor returns Docker's security options for a profile. Without a profile, Docker's default profile applies if the
// host has AppArmor. A profile that the kernel has not loaded is refused, since the engine would create the container
// and fail to start it. If the kernel's list cannot be read, no profile is refused.
func (p profile) apparmor(read ReadProfile, f docker.Features) ([]string, error) {
	switch p.kind {
	case runtimeapi.SecurityProfile_Unconfined:
		if f.AppArmor {
			return []string{apparmorUnconfined}, nil
		}
		return nil, nil
	case runtimeapi.SecurityProfile_Localhost:
	default:
		return nil, nil
	}
	if !f.AppArmor {
		return nil, unsupported(p.field, "the engine has no AppArmor, the profile %q cannot be applied", p.localhost)
	}
	if err := checkText(p.field, p.localhost); err != nil {
		return nil, err
	}
	if read == nil {
		return []string{apparmorOption + p.localhost}, nil
	}
	if list, err := read(apparmorProfiles); err == nil && !loaded(string(list), p.localhost) {
		return nil, invalid(p.field, "the AppArmor profile %q is not loaded on the node: load it with apparmor_parser",
			p.localhost)
	}
	return []string{apparmorOption + p.localhost}, nil
}

// loaded says whether the kernel's list has a profile.
func loaded(list, profile string) bool {
	for line := range strings.Lines(list) {
		if i := strings.LastIndex(line, " ("); i >= 0 && line[:i] == profile {
			return true
		}
	}
	return false
}

// selinuxLevel matches a sensitivity with categories, or a range of two.
var selinuxLevel = regexp.MustCompile(`^s\d+(:c\d+([.,]c\d+)*)?(-s\d+(:c\d+([.,]c\d+)*)?)?$`)

// selinuxOptions returns Docker's label options. An engine without SELinux ignores them, like other runtimes.
func selinuxOptions(field string, o *runtimeapi.SELinuxOption) ([]string, error) {
	var out []string
	for _, part := range []struct{ name, value string }{
		{"user", o.GetUser()}, {"role", o.GetRole()}, {"type", o.GetType()}, {"level", o.GetLevel()},
	} {
		if part.value == "" {
			continue
		}
		if err := checkWord(field+"."+part.name, part.value); err != nil {
			return nil, err
		}
		out = append(out, labelOption+part.name+":"+part.value)
	}
	if level := o.GetLevel(); level != "" && !selinuxLevel.MatchString(level) {
		return nil, invalid(field+".level", "%q is not an SELinux level such as s0:c4,c5", level)
	}
	return out, nil
}

// unlabelled reports whether Docker runs the container without an SELinux label. Such a container may use files of any
// label. Relabelling would give a mount the label that Docker has for these containers, and the pod's other containers
// could not use it.
func unlabelled(host *container.HostConfig) bool {
	named := slices.ContainsFunc(host.SecurityOpt, func(option string) bool {
		return strings.HasPrefix(option, labelOption)
	})
	return host.Privileged || !named && (host.PidMode.IsHost() || host.IpcMode.IsHost())
}

// capabilities sets the capabilities to add and to drop. In Docker as in CRI, names may begin with CAP_, and ALL means
// all.
func capabilities(field string, c *runtimeapi.Capability, host *container.HostConfig, more *extra) error {
	if err := checkCapabilities(field+".add_capabilities", c.GetAddCapabilities()); err != nil {
		return err
	}
	if err := checkCapabilities(field+".drop_capabilities", c.GetDropCapabilities()); err != nil {
		return err
	}
	host.CapAdd = slices.Clone(c.GetAddCapabilities())
	host.CapDrop = slices.Clone(c.GetDropCapabilities())
	return ambient(field+".add_ambient_capabilities", c.GetAddAmbientCapabilities(), host, more)
}

// ambient gives capabilities to a process of any user. They are also added to the container's capabilities, because
// only a permitted capability can be ambient.
func ambient(field string, names []string, host *container.HostConfig, more *extra) error {
	if len(names) == 0 {
		return nil
	}
	if err := checkCapabilities(field, names); err != nil {
		return err
	}
	note, err := more.need(field, "an ambient capability")
	if err != nil {
		return err
	}
	for i, name := range names {
		name = capabilityPrefix + strings.TrimPrefix(strings.ToUpper(name), capabilityPrefix)
		if name == capabilityPrefix+"ALL" {
			return invalid(item(field, i), "ALL is not a capability: name each capability that is to be ambient")
		}
		note.Process.Ambient = append(note.Process.Ambient, name)
	}
	host.CapAdd = append(host.CapAdd, note.Process.Ambient...)
	return nil
}

func checkCapabilities(field string, names []string) error {
	for i, name := range names {
		if name == "" || strings.Trim(strings.ToUpper(name), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != "" {
			return invalid(item(field, i), "%q is not the name of a capability", name)
		}
	}
	return nil
}

// paths sets the masked and read-only paths. CRI's lists are complete, and an empty list means none (the Unmasked proc
// mount of Kubernetes). In Docker, nil means Docker's own lists, which apply only if the client sends no security
// context.
func paths(field string, sc *runtimeapi.LinuxContainerSecurityContext, host *container.HostConfig) error {
	if sc == nil {
		return nil
	}
	host.MaskedPaths, host.ReadonlyPaths = []string{}, []string{}
	if sc.GetPrivileged() {
		return nil
	}
	for i, name := range sc.GetMaskedPaths() {
		clean, err := absolutePath(item(field+".masked_paths", i), name)
		if err != nil {
			return err
		}
		host.MaskedPaths = append(host.MaskedPaths, clean)
	}
	for i, name := range sc.GetReadonlyPaths() {
		clean, err := absolutePath(item(field+".readonly_paths", i), name)
		if err != nil {
			return err
		}
		host.ReadonlyPaths = append(host.ReadonlyPaths, clean)
	}
	return nil
}
