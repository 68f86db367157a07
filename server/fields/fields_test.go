//lint:file-ignore SA1019 the deprecated fields are refused as well

package fields

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// request is a pod and a container of it, and the engine that they are for.
type request struct {
	pod       *runtimeapi.PodSandboxConfig
	container *runtimeapi.ContainerConfig
	features  docker.Features
	handler   string
}

// newRequest is a request that is accepted, with a mount.
func newRequest(features docker.Features) *request {
	return &request{
		pod: &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "6f1c7a3e"},
			LogDirectory: "/var/log/pods/web",
			Linux:        &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{}},
		},
		container: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
			Image:    &runtimeapi.ImageSpec{Image: "sha256:app"},
			Mounts:   []*runtimeapi.Mount{{HostPath: "/srv", ContainerPath: "/data"}},
			Linux: &runtimeapi.LinuxContainerConfig{
				Resources:       &runtimeapi.LinuxContainerResources{},
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{Capabilities: &runtimeapi.Capability{}},
			},
		},
		features: features,
	}
}

// oldest is the oldest engine that is supported, without anything it may lack.
func oldest() docker.Features {
	return docker.Features{ServerVersion: "20.10.0", APIVersion: "1.41", CgroupVersion: 1, CgroupDriver: "cgroupfs", SELinux: true, NoCheckpoint: "criu"}
}

// newest is an engine that has all.
func newest() docker.Features {
	features := oldest()
	features.ServerVersion, features.APIVersion = "99.0.0", "1.99"
	features.AppArmor, features.Seccomp, features.CDI = true, true, true
	features.NoCheckpoint, features.CgroupVersion = "", 2
	features.RecursiveReadOnly = []string{features.DefaultRuntime}
	features.OCIRuntime = docker.OCIRuntime{Name: "criadapter", UserNamespaces: true}
	return features
}

// send translates both as RunPodSandbox and CreateContainer do, and returns the first error.
func (r *request) send() error {
	read := func(string) ([]byte, error) { return []byte(`{"defaultAction":"SCMP_ACT_ERRNO"}`), nil }
	run := &runtimeapi.RunPodSandboxRequest{Config: r.pod, RuntimeHandler: r.handler}
	if err := errors.Join(Check(run), Check(&runtimeapi.CreateContainerRequest{Config: r.container})); err != nil {
		return err
	}
	if _, err := translate.Sandbox(translate.SandboxInput{
		Config: r.pod, RuntimeHandler: r.handler, Image: "sha256:pause", Features: r.features, ReadProfile: read,
	}); err != nil {
		return err
	}
	_, err := translate.Container(translate.ContainerInput{
		Config:      r.container,
		Sandbox:     translate.SandboxRef{ID: strings.Repeat("a", 64), Config: r.pod, UserNamespace: "/run/u"},
		ImageID:     "sha256:app",
		Features:    r.features,
		ReadProfile: read,
	})
	return err
}

func (r *request) podSecurity() *runtimeapi.LinuxSandboxSecurityContext {
	return r.pod.Linux.SecurityContext
}

func (r *request) security() *runtimeapi.LinuxContainerSecurityContext {
	return r.container.Linux.SecurityContext
}

func ownUsers() *runtimeapi.NamespaceOption {
	ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
	return &runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{Uids: ids, Gids: ids}}
}

func localhost() *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "/profile"}
}

// uses are requests that use one refused field each.
var uses = []struct {
	field string
	with  func(*request)
}{
	{"NamespaceOption.userns_options", func(r *request) {
		r.podSecurity().NamespaceOptions = ownUsers()
	}},
	{"NamespaceOption.userns_options", func(r *request) {
		r.podSecurity().NamespaceOptions, r.security().NamespaceOptions = ownUsers(), ownUsers()
	}},
	{"RunPodSandboxRequest.runtime_handler", func(r *request) {
		r.handler = "kata"
		r.features.Runtimes, r.features.SandboxedRuntimes = []string{"kata"}, []string{"kata"}
	}},
	{"LinuxSandboxSecurityContext.supplemental_groups_policy", func(r *request) {
		r.podSecurity().SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Strict
	}},
	{"LinuxContainerSecurityContext.supplemental_groups_policy", func(r *request) {
		r.security().SupplementalGroupsPolicy = runtimeapi.SupplementalGroupsPolicy_Strict
	}},
	{"Capability.add_ambient_capabilities", func(r *request) {
		r.security().Capabilities = &runtimeapi.Capability{AddAmbientCapabilities: []string{"NET_RAW"}}
	}},
	{"Mount.selinux_relabel", func(r *request) { relabel(r, "/a:b", false) }},
	{"Mount.selinux_relabel", func(r *request) {
		r.features.APIVersion = newest().APIVersion // or it is refused for its age
		relabel(r, "/srv", true)
	}},
	{"Mount.recursive_read_only", func(r *request) {
		r.container.Mounts[0].Readonly, r.container.Mounts[0].RecursiveReadOnly = true, true
	}},
	{"Mount.mount_options", func(r *request) { r.container.Mounts[0].MountOptions = []string{"noexec"} }},
	{"LinuxContainerResources.unified", func(r *request) {
		r.container.Linux.Resources.Unified = map[string]string{"memory.high": "1048576"}
	}},
	{"Mount.uidMappings", func(r *request) { r.container.Mounts[0].UidMappings = ownUsers().GetUsernsOptions().GetUids() }},
	{"Mount.gidMappings", func(r *request) { r.container.Mounts[0].GidMappings = ownUsers().GetUsernsOptions().GetUids() }},
	{"CDIDevice.name", func(r *request) { r.container.CDIDevices = []*runtimeapi.CDIDevice{{Name: "vendor.com/gpu=0"}} }},
	{"ContainerConfig.annotations", func(r *request) {
		r.container.Annotations = map[string]string{"cdi.k8s.io/a_b": "vendor.com/gpu=0"}
	}},
	{"LinuxSandboxSecurityContext.apparmor", func(r *request) { r.podSecurity().Apparmor = localhost() }},
	{"LinuxContainerSecurityContext.apparmor", func(r *request) { r.security().Apparmor = localhost() }},
	{"LinuxContainerSecurityContext.apparmor_profile", func(r *request) { r.security().ApparmorProfile = "localhost/p" }},
	{"LinuxSandboxSecurityContext.seccomp", func(r *request) { r.podSecurity().Seccomp = localhost() }},
	{"LinuxSandboxSecurityContext.seccomp_profile_path", func(r *request) { r.podSecurity().SeccompProfilePath = "localhost//p" }},
	{"LinuxContainerSecurityContext.seccomp", func(r *request) { r.security().Seccomp = localhost() }},
	{"LinuxContainerSecurityContext.seccomp_profile_path", func(r *request) { r.security().SeccompProfilePath = "localhost//p" }},
}

// relabel has the mount of a request relabelled.
func relabel(r *request, source string, recursive bool) {
	r.security().SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
	r.features.RecursiveReadOnly = []string{r.features.DefaultRuntime}
	mount := r.container.Mounts[0]
	mount.HostPath, mount.SelinuxRelabel, mount.Readonly, mount.RecursiveReadOnly = source, true, recursive, recursive
}

// TestRefusals sends a request with each use that a row refuses. A row that says which engine accepts it is right about
// that, too.
func TestRefusals(t *testing.T) {
	testutil.Must(t, newRequest(oldest()).send(), "a request without refused fields")
	tried := map[string]bool{}
	for _, use := range uses {
		t.Run(use.field, func(t *testing.T) {
			row, ok := rowOf(use.field)
			testutil.Require(t, ok, "it has no row")
			tried[use.field] = true
			old, recent := newRequest(oldest()), newRequest(newest())
			use.with(old)
			use.with(recent)
			wantRefusal(t, use.field, old.send())
			if row.has == nil {
				wantRefusal(t, use.field, recent.send())
				return
			}
			if err := recent.send(); err != nil || row.has(oldest()) || !row.has(newest()) {
				t.Errorf("the table says that it needs %s, and the newest engine has %v", row.needs, err)
			}
		})
	}
	for _, row := range table() {
		for _, field := range row.fields {
			if row.refuses != "" && !tried[field] {
				t.Errorf("%s refuses something, and no request is refused for it", field)
			}
		}
	}
}

// rowOf finds the row of a field.
func rowOf(field string) (row, bool) {
	for _, row := range table() {
		if slices.Contains(row.fields, field) {
			return row, true
		}
	}
	return row{}, false
}

// wantRefusal checks that an error is of the type of codes.Unimplemented and begins with the path of a field.
func wantRefusal(t *testing.T, field string, err error) {
	t.Helper()
	_, name, _ := strings.Cut(field, ".")
	if !errdefs.IsNotImplemented(err) || refusedField(err) != name {
		t.Errorf("got %v, want an ErrNotImplemented that names %s", err, name)
	}
}

// refusedField is the name at the end of the path with which an error begins.
func refusedField(err error) string {
	path, _, _ := strings.Cut(err.Error(), ": ")
	path, _, _ = strings.Cut(path, "[cdi.k8s.io/") // the key of an annotation
	return path[strings.LastIndex(path, ".")+1:]
}

// TestNothingElseIsRefused sets every field of both configurations, one after the
// other, and finds whatever is refused in the table.
func TestNothingElseIsRefused(t *testing.T) {
	r := newRequest(oldest())
	check := func(parent protoreflect.Message, field protoreflect.FieldDescriptor) {
		err := r.send()
		if !errdefs.IsNotImplemented(err) {
			return
		}
		for _, row := range table() {
			mayBe := row.is == refused || row.refuses != ""
			if mayBe && slices.ContainsFunc(row.fields, func(known string) bool { return strings.HasSuffix(known, "."+refusedField(err)) }) {
				return
			}
		}
		t.Errorf("%s.%s is refused and has no row: %v", parent.Descriptor().Name(), field.Name(), err)
	}
	tried := 0
	for _, config := range []protoreflect.Message{r.pod.ProtoReflect(), r.container.ProtoReflect()} {
		tried += setEach(config, check)
	}
	testutil.Assert(t, tried >= 100, "only %d fields were tried", tried)
}
