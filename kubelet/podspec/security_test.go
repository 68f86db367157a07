package podspec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func securityOf(t *testing.T, change func(*v1.Pod)) *runtimeapi.LinuxContainerSecurityContext {
	t.Helper()
	return mustContainer(t, testGenerator(t, nil), input(testPod(change))).GetLinux().GetSecurityContext()
}

func TestContainerSettingsComeBeforeThePods(t *testing.T) {
	got := securityOf(t, func(pod *v1.Pod) {
		pod.Spec.SecurityContext = &v1.PodSecurityContext{
			RunAsUser: new(int64(1)), RunAsGroup: new(int64(2)), FSGroup: new(int64(3)),
			SupplementalGroups:       []int64{4},
			SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicyStrict),
			SELinuxOptions:           &v1.SELinuxOptions{Level: "pod"},
			SeccompProfile:           &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		}
		pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
			RunAsUser: new(int64(5)), SELinuxOptions: &v1.SELinuxOptions{Level: "own"},
			ReadOnlyRootFilesystem:   new(true),
			AllowPrivilegeEscalation: new(false),
			Capabilities:             &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		}
	})
	testutil.Assert(t, got.GetRunAsUser().GetValue() == 5 && got.GetRunAsGroup().GetValue() == 2 &&
		got.GetSelinuxOptions().GetLevel() == "own", "user %v, group %v, selinux %v", got.GetRunAsUser(),
		got.GetRunAsGroup(), got.GetSelinuxOptions())
	testutil.Assert(t, slices.Equal(got.GetSupplementalGroups(), []int64{3, 4}) &&
		got.GetSupplementalGroupsPolicy() == runtimeapi.SupplementalGroupsPolicy_Strict, "groups %v %v",
		got.GetSupplementalGroups(), got.GetSupplementalGroupsPolicy())
	testutil.Assert(t, got.GetReadonlyRootfs() && got.GetNoNewPrivs() && !got.GetPrivileged(),
		"read-only %t, no new privileges %t, privileged %t", got.GetReadonlyRootfs(), got.GetNoNewPrivs(),
		got.GetPrivileged())
	c := got.GetCapabilities()
	testutil.Assert(t, slices.Equal(c.GetAddCapabilities(), []string{"NET_ADMIN"}) &&
		slices.Equal(c.GetDropCapabilities(), []string{"ALL"}), "capabilities %v", c)
	testutil.Assert(t, got.GetSeccomp().GetProfileType() == runtimeapi.SecurityProfile_RuntimeDefault,
		"seccomp %v", got.GetSeccomp())
}

func TestSeccomp(t *testing.T) {
	for _, c := range []struct {
		name     string
		byOption bool
		profile  *v1.SeccompProfile
		want     runtimeapi.SecurityProfile_ProfileType
		file     string // the end of the reference
		bad      bool
	}{
		{name: "none", want: runtimeapi.SecurityProfile_Unconfined},
		{name: "none, with the option", byOption: true, want: runtimeapi.SecurityProfile_RuntimeDefault},
		{name: "unconfined, with the option", byOption: true,
			profile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeUnconfined},
			want:    runtimeapi.SecurityProfile_Unconfined},
		{name: "localhost",
			profile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a/b.json")},
			want:    runtimeapi.SecurityProfile_Localhost, file: "/seccomp/a/b.json"},
		{name: "localhost without a file", profile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost},
			bad: true},
		{name: "localhost outside of the directory",
			profile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("../x")},
			bad:     true},
		{name: "nonsense", profile: &v1.SeccompProfile{Type: "Nonsense"}, bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := testGenerator(t, func(o *Options) { o.SeccompDefault = c.byOption })
			got, err := g.seccomp(&v1.PodSecurityContext{}, &v1.SecurityContext{SeccompProfile: c.profile})
			if c.bad {
				testutil.Assert(t, errors.Is(err, errdefs.ErrInvalidArgument),
					"got %v, %v; want ErrInvalidArgument", got, err)
				return
			}
			testutil.Assert(t, err == nil && got.GetProfileType() == c.want &&
				strings.HasSuffix(got.GetLocalhostRef(), c.file), "got %v, %v; want %v %s", got, err, c.want, c.file)
		})
	}
}

func TestAppArmor(t *testing.T) {
	for _, c := range []struct {
		name       string
		annotation string
		profile    *v1.AppArmorProfile
		want       string // in the form of the deprecated field
	}{
		{"none", "", nil, ""},
		{"default", "", &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}, "runtime/default"},
		{"unconfined", "", &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}, "unconfined"},
		{"localhost", "", &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine")},
			"localhost/mine"},
		{"annotation", "localhost/old", nil, "localhost/old"},
		{"field before annotation", "unconfined", &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault},
			"runtime/default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := securityOf(t, func(pod *v1.Pod) {
				pod.Annotations = map[string]string{v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix +
					"main": c.annotation}
				pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{AppArmorProfile: c.profile}
			})
			//lint:ignore SA1019 runtimes from before the field Apparmor read this field
			old := got.GetApparmorProfile()
			testutil.Assert(t, old == c.want && oldAppArmor(got.GetApparmor()) == c.want,
				"got %q and %v, want %q", old, got.GetApparmor(), c.want)
		})
	}
}

func TestProcMount(t *testing.T) {
	usual := securityOf(t, nil)
	testutil.Assert(t, slices.Contains(usual.GetMaskedPaths(), "/proc/kcore") &&
		slices.Contains(usual.GetReadonlyPaths(), "/proc/sys"), "masked %v, read-only %v", usual.GetMaskedPaths(),
		usual.GetReadonlyPaths())
	unmasked := securityOf(t, func(pod *v1.Pod) {
		pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{ProcMount: new(v1.UnmaskedProcMount)}
	})
	testutil.Assert(t, unmasked.MaskedPaths != nil && unmasked.ReadonlyPaths != nil &&
		len(unmasked.MaskedPaths)+len(unmasked.ReadonlyPaths) == 0, "masked %v, read-only %v; want two empty lists",
		unmasked.MaskedPaths, unmasked.ReadonlyPaths)
}

// TestThrottlingOfAllCPUs: a removed CPU or one without counters does not hide the counters of later CPUs.
func TestThrottlingOfAllCPUs(t *testing.T) {
	root := t.TempDir()
	cpus := filepath.Join(root, "sys/devices/system/cpu")
	for _, path := range []string{"cpu0/thermal_throttle", "cpu2", "cpu10/thermal_throttle",
		"cpufreq/thermal_throttle"} {
		testutil.Must(t, os.MkdirAll(filepath.Join(cpus, path), 0o755))
	}
	got := throttling(root)
	testutil.Assert(t, slices.Equal(got, []string{filepath.Join(cpus, "cpu0/thermal_throttle"),
		filepath.Join(cpus, "cpu10/thermal_throttle")}), "got %v", got)
}

func TestUser(t *testing.T) {
	numeric := func(id int64) *runtimeapi.Image { return &runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: id}} }
	for _, c := range []struct {
		name      string
		runAsUser *int64
		nonRoot   bool
		image     *runtimeapi.Image
		want      user
		bad       string
	}{
		{name: "image without user", want: user{id: new(int64(0))}},
		{name: "image's number", image: numeric(7), want: user{id: new(int64(7))}},
		{name: "image's name", image: &runtimeapi.Image{Username: "www"}, want: user{name: "www"}},
		{name: "pod's number", runAsUser: new(int64(9)), image: numeric(7), want: user{id: new(int64(9))}},
		{name: "root with runAsNonRoot", runAsUser: new(int64(0)), nonRoot: true, bad: "runAsUser 0"},
		{name: "image's root with runAsNonRoot", nonRoot: true, image: numeric(0), bad: "image will run as root"},
		{name: "image without user, with runAsNonRoot", nonRoot: true, bad: "image will run as root"},
		{name: "image's name with runAsNonRoot", nonRoot: true, image: &runtimeapi.Image{Username: "www"},
			bad: "non-numeric user (www)"},
		{name: "image's number with runAsNonRoot", nonRoot: true, image: numeric(7), want: user{id: new(int64(7))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(testPod(func(pod *v1.Pod) {
				pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: c.runAsUser, RunAsNonRoot: &c.nonRoot}
			}))
			in.Image = c.image
			got, err := effectiveUser(in)
			if c.bad != "" {
				testutil.Assert(t, err != nil && strings.Contains(err.Error(), c.bad),
					"got %v, want an error with %q", err, c.bad)
				return
			}
			if err != nil || got.name != c.want.name || (got.id == nil) != (c.want.id == nil) ||
				got.id != nil && *got.id != *c.want.id {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
		})
	}
}
