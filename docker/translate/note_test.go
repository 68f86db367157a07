package translate

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

// noted adds the OCI runtime to the engine of in.
func noted(in ContainerInput) ContainerInput {
	in.Features.OCIRuntime = docker.OCIRuntime{Name: "criadapter", RecursiveReadOnly: true}
	return in
}

func TestNotes(t *testing.T) {
	strict := &runtimeapi.LinuxContainerSecurityContext{
		SupplementalGroups: []int64{7}, SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
	}
	ambient := &runtimeapi.LinuxContainerSecurityContext{Capabilities: &runtimeapi.Capability{
		AddCapabilities: []string{"CHOWN"}, AddAmbientCapabilities: []string{"cap_net_raw", "SYS_TIME"},
	}}
	recursive := &runtimeapi.Mount{HostPath: "/srv", ContainerPath: "/data/", Readonly: true, RecursiveReadOnly: true}
	for name, c := range map[string]struct {
		change func(*runtimeapi.ContainerConfig)
		want   *ocinote.Note
	}{
		"nothing to say": {func(*runtimeapi.ContainerConfig) {}, nil},
		"strict groups": {
			func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext = strict },
			&ocinote.Note{Process: ocinote.Process{Groups: &[]uint32{7}}},
		},
		"ambient capabilities": {
			func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext = ambient },
			&ocinote.Note{Process: ocinote.Process{Ambient: []string{"CAP_NET_RAW", "CAP_SYS_TIME"}}},
		},
		"a recursive mount": {
			func(c *runtimeapi.ContainerConfig) { c.Mounts = []*runtimeapi.Mount{recursive} },
			&ocinote.Note{MountOptions: map[string][]string{"/data": {"rro"}}},
		},
		"mount options": {
			func(c *runtimeapi.ContainerConfig) {
				c.Mounts = []*runtimeapi.Mount{
					{HostPath: "/srv", ContainerPath: "tmp", MountOptions: []string{"noexec", "nosuid"}}}
			},
			&ocinote.Note{MountOptions: map[string][]string{"/tmp": {"noexec", "nosuid"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := noted(containerInput())
			c.change(in.Config)
			spec, err := Container(in)
			testutil.Require(t, err == nil && reflect.DeepEqual(spec.Note, c.want), "got %+v, %v", spec.Note, err)
			for _, capability := range ambientOf(spec) {
				testutil.Assert(t, slices.Contains(spec.Host.CapAdd, capability),
					"the ambient capability %s is not among the added ones, %v", capability, spec.Host.CapAdd)
			}
			if c.want == nil {
				return
			}
			in.Features.OCIRuntime.Name = ""
			in.Features.OCIRuntime.RecursiveReadOnly = false
			_, err = Container(in)
			testutil.Fails(t, err, errdefs.IsNotImplemented, "without the runtime")
			in = noted(in)
			in.Features.Runtimes = append(in.Features.Runtimes, "other")
			in.Sandbox.RuntimeHandler = "other" // criadapter-oci does not wrap this runtime
			_, err = Container(in)
			testutil.Fails(t, err, errdefs.IsNotImplemented, "with another handler")
		})
	}
}

// A user with a group gets the groups of the image by a note. The engine adds them to a user without a group only.
func TestMergedGroupsOfAUserWithAGroup(t *testing.T) {
	const strict = runtimeapi.SupplementalGroupsPolicy_Strict
	for name, c := range map[string]struct {
		sc    *runtimeapi.LinuxContainerSecurityContext
		user  string
		found string
	}{
		"no user": {&runtimeapi.LinuxContainerSecurityContext{}, "", ""},
		"a user":  {&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(1000)}, "1000", ""},
		"a user with a group": {
			&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(1000), RunAsGroup: int64Value(2000)},
			"1000:2000", "1000"},
		"a name with a group": {
			&runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www-data", RunAsGroup: int64Value(0)},
			"www-data:0", "www-data"},
		"strict": {&runtimeapi.LinuxContainerSecurityContext{RunAsUser: int64Value(1000), RunAsGroup: int64Value(2000),
			SupplementalGroupsPolicy: strict}, "1000:2000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := noted(containerInput())
			c.sc.SupplementalGroups = []int64{7}
			in.Config.Linux.SecurityContext = c.sc
			spec := mustContainer(t, in)
			testutil.Equal(t, spec.Config.User, c.user, "Docker's user")
			note := cmp.Or(spec.Note, &ocinote.Note{})
			testutil.Equal(t, note.Process.GroupsOf, c.found, "the user whose groups the note adds from the image")
			if c.sc.SupplementalGroupsPolicy == strict {
				return
			}
			testutil.Assert(t, slices.Equal(spec.Host.GroupAdd, []string{"7"}) && note.Process.Groups == nil &&
				(spec.Note == nil) == (c.found == ""), "got %q and %+v", spec.Host.GroupAdd, spec.Note)
			in.Features.OCIRuntime = docker.OCIRuntime{}
			spec = mustContainer(t, in)
			testutil.Assert(t, spec.Note == nil && spec.Config.User == c.user, "without the runtime: %+v", spec)
		})
	}
}

func TestAmbientCapabilitiesThatAreNone(t *testing.T) {
	for _, name := range []string{"ALL", "", "NET RAW"} {
		in := noted(containerInput())
		in.Config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
			Capabilities: &runtimeapi.Capability{AddAmbientCapabilities: []string{name}},
		}
		_, err := Container(in)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "%q: %v", name, err)
	}
}

func ambientOf(spec docker.ContainerSpec) []string {
	if spec.Note == nil {
		return nil
	}
	return spec.Note.Process.Ambient
}

// Fields of a profile that an older engine does not know go into the note.
func TestWholeProfile(t *testing.T) {
	const whole = `{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,"flags":["SECCOMP_FILTER_FLAG_LOG"],"syscalls":[]}`
	for name, c := range map[string]struct {
		profile string
		newer   bool
		want    *ocinote.Note
	}{
		"whole": {whole, false,
			&ocinote.Note{Seccomp: map[string]json.RawMessage{"defaultErrnoRet": []byte("38")}}},
		"plain":           {`{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[]}`, false, nil},
		"on newer engine": {whole, true, nil},
	} {
		in := noted(containerInput())
		if c.newer {
			in.Features.APIVersion = newEngine().APIVersion
		}
		in.Features.Seccomp = true
		in.ReadProfile = func(string) ([]byte, error) { return []byte(c.profile), nil }
		in.Config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
			Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost,
				LocalhostRef: "/profile"},
		}
		got := mustContainer(t, in).Note
		testutil.Assert(t, reflect.DeepEqual(got, c.want), "%s: got %+v, want %+v", name, got, c.want)
	}
}

// Docker takes a relabelled mount only as a bind string, which has no recursive read-only option. The note adds this
// option and the mount's other options.
func TestRelabelledMountWithOptions(t *testing.T) {
	in := containerInput()
	in.Features = newEngine()
	in = noted(in)
	in.Config.Linux.SecurityContext.SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0:c1,c2"}
	in.Config.Mounts = []*runtimeapi.Mount{{
		HostPath: "/a", ContainerPath: "/x", SelinuxRelabel: true, Readonly: true, RecursiveReadOnly: true,
		MountOptions: []string{"noexec"},
	}}
	spec := mustContainer(t, in)
	want := []string{"/a:/x:ro,Z"}
	testutil.Assert(t, slices.Equal(spec.Host.Binds, want), "binds %q, want %q", spec.Host.Binds, want)
	if want := (&ocinote.Note{MountOptions: map[string][]string{"/x": {"rro", "noexec"}}}); !reflect.DeepEqual(
		spec.Note, want) {
		t.Errorf("got %+v, want %+v", spec.Note, want)
	}
}

// A container with a note gets its recursive read-only mounts from the note, even if only a later mount needs the note.
// Without a note the engine makes them.
func TestRecursiveMountOfNotedContainer(t *testing.T) {
	for name, c := range map[string]struct {
		options []string
		later   *runtimeapi.Mount
		want    *ocinote.Note
	}{
		"no note": {want: nil},
		"options of its own": {options: []string{"noexec"},
			want: &ocinote.Note{MountOptions: map[string][]string{"/x": {"noexec", "rro"}}}},
		"a later mount's options": {
			later: &runtimeapi.Mount{HostPath: "/b", ContainerPath: "/y", MountOptions: []string{"nodev"}},
			want:  &ocinote.Note{MountOptions: map[string][]string{"/x": {"rro"}, "/y": {"nodev"}}},
		},
	} {
		in := containerInput()
		in.Features = newEngine()
		in = noted(in)
		in.Config.Mounts = []*runtimeapi.Mount{{
			HostPath: "/a", ContainerPath: "/x", Readonly: true, RecursiveReadOnly: true, MountOptions: c.options,
		}}
		if c.later != nil {
			in.Config.Mounts = append(in.Config.Mounts, c.later)
		}
		spec := mustContainer(t, in)
		options := spec.Host.Mounts[0].BindOptions
		testutil.Assert(t, options.ReadOnlyForceRecursive == (c.want == nil) &&
			options.ReadOnlyNonRecursive == (c.want != nil), "%s: the engine is asked for %+v", name, options)
		testutil.Assert(t, reflect.DeepEqual(spec.Note, c.want),
			"%s: the note is %+v, want %+v", name, spec.Note, c.want)
		in.Features.OCIRuntime.RecursiveReadOnly = false
		_, err := Container(in)
		testutil.Assert(t, errdefs.IsNotImplemented(err) == (c.want != nil),
			"%s, where the runtime ignores the option: %v", name, err)
	}
}

func TestMountOptionsThatAreNone(t *testing.T) {
	for _, option := range []string{"rw", "ro", "rro", "rshared", "exec", "size=5", ""} {
		in := noted(containerInput())
		in.Config.Mounts = []*runtimeapi.Mount{
			{HostPath: "/a", ContainerPath: "/x", MountOptions: []string{"noexec", option}}}
		_, err := Container(in)
		testutil.Assert(t, errdefs.IsInvalidArgument(err) &&
			strings.HasPrefix(err.Error(), "config.mounts[0].mount_options[1]: "), "%q: %v", option, err)
	}
}

// Of two mounts at one place, only the last one reaches the engine and the note. The first one is checked, too.
func TestLastMountOfAPlace(t *testing.T) {
	in := noted(containerInput())
	covered := &runtimeapi.Mount{HostPath: "/a", ContainerPath: "/x", MountOptions: []string{"noexec"}}
	in.Config.Mounts = []*runtimeapi.Mount{
		covered, {HostPath: "/c", ContainerPath: "/x/y"}, {HostPath: "/b", ContainerPath: "x/"}}
	spec := mustContainer(t, in)
	var got []string
	for _, m := range spec.Host.Mounts {
		got = append(got, m.Source+" at "+m.Target)
	}
	want := []string{"/c at /x/y", "/b at /x"}
	testutil.Assert(t, slices.Equal(got, want) && spec.Note == nil,
		"mounts %q and note %+v, want %q", got, spec.Note, want)
	covered.MountOptions = []string{"size=5"}
	_, err := Container(in)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) &&
		strings.HasPrefix(err.Error(), "config.mounts[0].mount_options"), "an option that does not exist: %v", err)
}

// Limits without a field in the Docker API go into the note, so that they apply from the start.
func TestLimitsInNotes(t *testing.T) {
	pages := func(limits ...uint64) (out []*runtimeapi.HugepageLimit) {
		for i, limit := range limits {
			out = append(out, &runtimeapi.HugepageLimit{PageSize: []string{"2MB", "1GB", "64KB"}[i], Limit: limit})
		}
		return out
	}
	for name, c := range map[string]struct {
		limits *runtimeapi.LinuxContainerResources
		strict bool
		want   *ocinote.Note
	}{
		"none": {&runtimeapi.LinuxContainerResources{}, false, nil},
		"a kubelet's": {
			&runtimeapi.LinuxContainerResources{HugepageLimits: pages(0, 0),
				Unified: map[string]string{"memory.high": "max"}}, false, nil},
		"huge pages": {&runtimeapi.LinuxContainerResources{HugepageLimits: pages(4<<20, 0)}, false,
			&ocinote.Note{HugepageLimits: map[string]uint64{"2MB": 4 << 20, "1GB": 0}}},
		"of a size without any": {&runtimeapi.LinuxContainerResources{HugepageLimits: pages(0, 0, 1)}, false, nil},
		"unified": {
			&runtimeapi.LinuxContainerResources{Unified: map[string]string{"memory.low": "4096", "memory.high": "max"}},
			false, &ocinote.Note{Unified: map[string]string{"memory.low": "4096"}}},
		"none, and another note": {&runtimeapi.LinuxContainerResources{HugepageLimits: pages(0)}, true,
			&ocinote.Note{Process: ocinote.Process{Groups: &[]uint32{}}, HugepageLimits: map[string]uint64{"2MB": 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			in := noted(containerInput())
			in.Features.CgroupVersion, in.Features.HugePages = 2, []string{"1GB", "2MB"}
			in.Config.Linux.Resources = c.limits
			in.Config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{}
			if c.strict {
				in.Config.Linux.SecurityContext.SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Strict
			}
			got := mustContainer(t, in).Note
			testutil.Assert(t, sameText(t, got, c.want), "got %+v, want %+v", got, c.want)
			in.Features.OCIRuntime = docker.OCIRuntime{}
			if spec, err := Container(in); !c.strict && (err != nil || spec.Note != nil) {
				t.Errorf("without the runtime: %+v, %v", spec.Note, err)
			}
		})
	}
}

// A container that plugins may adjust has a note, even if nothing else needs one. Without the OCI runtime it has no
// note.
func TestAdjustableContainer(t *testing.T) {
	in := noted(containerInput())
	in.Adjustable = true
	spec, err := Container(in)
	testutil.Assert(t, err == nil && spec.Note != nil, "note %v, %v", spec.Note, err)
	in.Features.OCIRuntime = docker.OCIRuntime{}
	spec, err = Container(in)
	testutil.Assert(t, err == nil && spec.Note == nil, "without the runtime: note %v, %v", spec.Note, err)
}
