//lint:file-ignore SA1019 older kubelets set the deprecated fields only

package translate

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

const profileText = `{
	"defaultAction": "SCMP_ACT_ERRNO",
	"syscalls": [ {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"} ]
}`

const profileCompact = `{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["read","write"],"action":"SCMP_ACT_ALLOW"}]}`

func securityProfile(kind runtimeapi.SecurityProfile_ProfileType) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: kind}
}

func TestSecurityOptions(t *testing.T) {
	const (
		off        = "no-new-privileges=false"
		unconfined = "seccomp=unconfined"
	)
	for _, tc := range []struct {
		name string
		sc   *runtimeapi.LinuxContainerSecurityContext
		want []string
	}{
		{"nothing said", &runtimeapi.LinuxContainerSecurityContext{}, []string{off, unconfined}},
		{"no new privileges", &runtimeapi.LinuxContainerSecurityContext{NoNewPrivs: true},
			[]string{"no-new-privileges=true", unconfined}},
		{"seccomp default",
			&runtimeapi.LinuxContainerSecurityContext{
				Seccomp: securityProfile(runtimeapi.SecurityProfile_RuntimeDefault)}, []string{off}},
		{"seccomp unconfined",
			&runtimeapi.LinuxContainerSecurityContext{Seccomp: securityProfile(runtimeapi.SecurityProfile_Unconfined)},
			[]string{off, unconfined}},
		{"seccomp of the node", &runtimeapi.LinuxContainerSecurityContext{Seccomp: localhost("/p.json")},
			[]string{off, "seccomp=" + profileCompact}},
		{"seccomp of the node, older spelling",
			&runtimeapi.LinuxContainerSecurityContext{Seccomp: localhost("localhost//p.json")},
			[]string{off, "seccomp=" + profileCompact}},
		{"older seccomp field, default",
			&runtimeapi.LinuxContainerSecurityContext{SeccompProfilePath: "runtime/default"}, []string{off}},
		{"older seccomp field, dockershim's default",
			&runtimeapi.LinuxContainerSecurityContext{SeccompProfilePath: "docker/default"}, []string{off}},
		{"older seccomp field, unconfined", &runtimeapi.LinuxContainerSecurityContext{SeccompProfilePath: "unconfined"},
			[]string{off, unconfined}},
		{"older seccomp field, of the node",
			&runtimeapi.LinuxContainerSecurityContext{SeccompProfilePath: "localhost//p.json"},
			[]string{off, "seccomp=" + profileCompact}},
		{"both seccomp fields",
			&runtimeapi.LinuxContainerSecurityContext{
				Seccomp: securityProfile(runtimeapi.SecurityProfile_RuntimeDefault), SeccompProfilePath: "unconfined"},
			[]string{off}},
		{"AppArmor default",
			&runtimeapi.LinuxContainerSecurityContext{
				Apparmor: securityProfile(runtimeapi.SecurityProfile_RuntimeDefault)}, []string{off, unconfined}},
		{"AppArmor unconfined",
			&runtimeapi.LinuxContainerSecurityContext{Apparmor: securityProfile(runtimeapi.SecurityProfile_Unconfined)},
			[]string{off, unconfined, "apparmor=unconfined"}},
		{"AppArmor of the node", &runtimeapi.LinuxContainerSecurityContext{Apparmor: localhost("k8s-nginx")},
			[]string{off, unconfined, "apparmor=k8s-nginx"}},
		{"older AppArmor field", &runtimeapi.LinuxContainerSecurityContext{ApparmorProfile: "localhost/k8s-nginx"},
			[]string{off, unconfined, "apparmor=k8s-nginx"}},
		{"both AppArmor fields",
			&runtimeapi.LinuxContainerSecurityContext{Apparmor: localhost("new"), ApparmorProfile: "localhost/old"},
			[]string{off, unconfined, "apparmor=new"}},
		{"SELinux",
			&runtimeapi.LinuxContainerSecurityContext{
				SelinuxOptions: &runtimeapi.SELinuxOption{User: "u", Role: "r", Type: "t", Level: "s0:c1,c2"}},
			[]string{off, unconfined, "label=user:u", "label=role:r", "label=type:t", "label=level:s0:c1,c2"}},
		{"privileged lifts all", &runtimeapi.LinuxContainerSecurityContext{
			Privileged: true, Seccomp: localhost("/p.json"), Apparmor: localhost("p"),
			SelinuxOptions: &runtimeapi.SELinuxOption{Type: "t"},
		}, []string{off, unconfined, "apparmor=unconfined"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := containerInput()
			in.Features = newEngine()
			in.ReadProfile = func(path string) ([]byte, error) {
				if path == apparmorProfiles {
					return []byte("docker-default (enforce)\nk8s-nginx (enforce)\nnew (complain)\n"), nil
				}
				testutil.Assert(t, path == "/p.json", "read %s", path)
				return []byte(profileText), nil
			}
			in.Sandbox.Config.Linux.SecurityContext.Privileged = true
			in.Config.Linux.SecurityContext = tc.sc
			host := mustContainer(t, in).Host
			testutil.Assert(t, slices.Equal(host.SecurityOpt, tc.want), "got %q, want %q", host.SecurityOpt, tc.want)
			testutil.Assert(t, host.Privileged == tc.sc.Privileged, "privileged is %v", host.Privileged)
		})
	}
}

// A profile must be loaded under its whole name. If the node's list cannot be read, only the engine checks the profile.
func TestAppArmorProfileIsLoaded(t *testing.T) {
	const list = "docker-default (enforce)\nmy (odd) profile (complain)\nnginx//child (enforce)\n"
	for name, want := range map[string]bool{
		"docker-default": true, "my (odd) profile": true, "nginx//child": true,
		"nginx": false, "docker": false, "docker-default (enforce)": false, "my": false,
	} {
		in := containerInput()
		in.Features, in.Config.Linux.SecurityContext.Apparmor = newEngine(), localhost(name)
		in.ReadProfile = func(string) ([]byte, error) { return []byte(list), nil }
		_, err := Container(in)
		testutil.Assert(t, (err == nil) == want, "%s: %v", name, err)
		testutil.Assert(t, want || errdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "apparmor_parser"),
			"%s: %v", name, err)
		in.ReadProfile = func(string) ([]byte, error) { return nil, fs.ErrNotExist }
		_, err = Container(in)
		testutil.Check(t, err)
	}
}

// A level that the kernel could not read is refused, also for a privileged container, which gets no label.
func TestSELinuxLevels(t *testing.T) {
	for level, good := range map[string]bool{
		"": true, "s0": true, "s0:c4,c5": true, "s0:c0.c1023": true, "s0-s15:c0.c3,c7": true, "s1:c2-s2:c2,c9": true,
		"s0,c4,c5": false, "s": false, "s0:": false, "s0:c": false, "s0:c1,": false, "c1": false, "s0:c1-": false,
		"SystemLow": false, " s0": false, "s0\n": false,
	} {
		for _, privileged := range []bool{false, true} {
			in := containerInput()
			in.Sandbox.Config.Linux.SecurityContext.Privileged = true
			in.Config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{Privileged: privileged,
				SelinuxOptions: &runtimeapi.SELinuxOption{Level: level}}
			_, err := Container(in)
			testutil.Assert(t, (err == nil) == good, "%q, privileged %t: %v", level, privileged, err)
			testutil.Assert(t, good || errdefs.IsInvalidArgument(err) &&
				strings.HasPrefix(err.Error(), "config.linux.security_context.selinux_options.level: "), "%v", err)
		}
	}
}

func TestUnconfinedAppArmorWithoutAppArmor(t *testing.T) {
	for _, kind := range []runtimeapi.SecurityProfile_ProfileType{runtimeapi.SecurityProfile_RuntimeDefault,
		runtimeapi.SecurityProfile_Unconfined} {
		in := containerInput()
		in.Config.Linux.SecurityContext.Apparmor = securityProfile(kind)
		got := mustContainer(t, in).Host.SecurityOpt
		testutil.Assert(t, slices.Equal(got, []string{"no-new-privileges=false", "seccomp=unconfined"}),
			"%s gives %q", kind, got)
	}
}

// A profile that names no system call is valid: its default action applies to every call.
func TestSeccompProfileWithoutSyscalls(t *testing.T) {
	for _, content := range []string{`{"defaultAction":"SCMP_ACT_ERRNO"}`,
		`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[]}`} {
		in := containerInput()
		seccompContent(content, nil)(&in, in.Config)
		got := mustContainer(t, in).Host.SecurityOpt
		testutil.Assert(t, slices.Contains(got, "seccomp="+content), "%s gives %q", content, got)
	}
}

func TestPrivilegedNeedsAPrivilegedPod(t *testing.T) {
	in := containerInput()
	in.Config.Linux.SecurityContext.Privileged = true
	in.Sandbox.Config.Linux.SecurityContext.Privileged = true
	in.Config.Linux.SecurityContext.MaskedPaths = []string{"/proc/kcore"}
	host := mustContainer(t, in).Host
	testutil.Assert(t, host.Privileged && host.MaskedPaths != nil && len(host.MaskedPaths) == 0,
		"privileged %v, masked %q", host.Privileged, host.MaskedPaths)
	// A pod that was rebuilt from its labels does not show the field, so the container is not refused.
	in.Sandbox.Config = &runtimeapi.PodSandboxConfig{Metadata: podMetadata()}
	testutil.Assert(t, mustContainer(t, in).Host.Privileged, "not privileged in a rebuilt pod")
}

// TestDefaultProfileOfAnUnconfinedEngine checks that the request names the engine's own profile if daemon.json has the
// seccomp-profile "unconfined".
func TestDefaultProfileOfAnUnconfinedEngine(t *testing.T) {
	for profile, want := range map[string]bool{"": false, "/etc/docker/own.json": false, "unconfined": true} {
		sandbox, app := sandboxInput(), containerInput()
		sandbox.Features, app.Features = newEngine(), newEngine()
		sandbox.Features.SeccompProfile, app.Features.SeccompProfile = profile, profile
		app.Config.Linux.SecurityContext.Seccomp = &runtimeapi.SecurityProfile{
			ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
		for _, spec := range []docker.ContainerSpec{mustSandbox(t, sandbox), mustContainer(t, app)} {
			testutil.Assert(t, slices.Contains(spec.Host.SecurityOpt, "seccomp=builtin") == want,
				"with the profile %q: %q", profile, spec.Host.SecurityOpt)
		}
	}
}
