//lint:file-ignore SA1019 the deprecated fields are refused as well

package fields

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
)

// request is a pod, one container of the pod, and the features of the engine that runs them.
type request struct {
	pod       *runtimeapi.PodSandboxConfig
	container *runtimeapi.ContainerConfig
	features  docker.Features
	handler   string
	// podID and image are for the container.
	podID, image string
	// read gives the content of seccomp profiles.
	read func(string) ([]byte, error)
}

// newRequest returns a valid request whose container has a mount.
func newRequest(features docker.Features) *request {
	return &request{
		pod: &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "6f1c7a3e"},
			LogDirectory: "/var/log/pods/web",
			Linux: &runtimeapi.LinuxPodSandboxConfig{
				SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
					NamespaceOptions: &runtimeapi.NamespaceOption{}},
			},
		},
		container: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
			Image:    &runtimeapi.ImageSpec{Image: "sha256:app"},
			LogPath:  "app/1.log",
			Mounts:   []*runtimeapi.Mount{{HostPath: "/srv", ContainerPath: "/data"}},
			Linux: &runtimeapi.LinuxContainerConfig{
				Resources: &runtimeapi.LinuxContainerResources{},
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
					Capabilities: &runtimeapi.Capability{}, NamespaceOptions: &runtimeapi.NamespaceOption{},
				},
			},
		},
		features: features,
		podID:    strings.Repeat("a", 64),
		image:    "sha256:app",
		read: func(path string) ([]byte, error) {
			if path == apparmorProfiles {
				return []byte("/profile (enforce)\np (complain)\n"), nil
			}
			return []byte(`{"defaultAction":"SCMP_ACT_ERRNO"}`), nil
		},
	}
}

// run translates the pod.
func (r *request) run() (docker.ContainerSpec, error) {
	return translate.Sandbox(translate.SandboxInput{
		Config: r.pod, RuntimeHandler: r.handler, Image: "sha256:pause", Features: r.features, ReadProfile: r.read,
	})
}

// create translates the container.
func (r *request) create() (docker.ContainerSpec, error) {
	return translate.Container(translate.ContainerInput{
		Config: r.container,
		Sandbox: translate.SandboxRef{
			ID: r.podID, Config: r.pod, RuntimeHandler: r.handler, UserNamespace: "/run/u",
		},
		ImageID:     r.image,
		Features:    r.features,
		ReadProfile: r.read,
	})
}

// send checks and translates the pod and the container, as RunPodSandbox and CreateContainer do. It returns the first
// error.
func (r *request) send() error {
	run := &runtimeapi.RunPodSandboxRequest{Config: r.pod, RuntimeHandler: r.handler}
	if err := errors.Join(Check(run), Check(&runtimeapi.CreateContainerRequest{Config: r.container})); err != nil {
		return err
	}
	if _, err := r.run(); err != nil {
		return err
	}
	_, err := r.create()
	return err
}

// configs returns copies of the client's configurations.
func (r *request) configs() [2]proto.Message {
	return [2]proto.Message{proto.CloneOf(r.pod), proto.CloneOf(r.container)}
}

func (r *request) podSecurity() *runtimeapi.LinuxSandboxSecurityContext {
	return r.pod.Linux.SecurityContext
}

func (r *request) security() *runtimeapi.LinuxContainerSecurityContext {
	return r.container.Linux.SecurityContext
}

// oldest is the oldest supported engine. Of the optional features it has SELinux only.
func oldest() docker.Features {
	return docker.Features{
		ServerVersion: "20.10.0", APIVersion: "1.41", CgroupVersion: 1, CgroupDriver: "cgroupfs", SELinux: true,
		NoCheckpoint: "criu",
	}
}

// newest is an engine with all features.
func newest() docker.Features {
	features := oldest()
	features.ServerVersion, features.APIVersion = "99.0.0", "1.99"
	features.AppArmor, features.Seccomp, features.CDI = true, true, true
	features.NoCheckpoint, features.CgroupVersion = "", 2
	features.RecursiveReadOnly = []string{features.DefaultRuntime}
	features.OCIRuntime = docker.OCIRuntime{Name: "criadapter", UserNamespaces: true}
	return features
}

// usual is an old engine with the settings of most nodes.
func usual() docker.Features {
	return docker.Features{
		ServerVersion: "20.10.24", APIVersion: "1.41", CgroupVersion: 1, CgroupDriver: "cgroupfs",
		Runtimes: []string{"runc"}, DefaultRuntime: "runc", Seccomp: true, SwapLimit: true, NegativeOOMScore: true,
	}
}

// confined is a new engine with systemd, AppArmor, SELinux and a second runtime, but without criadapter-oci.
func confined() docker.Features {
	return docker.Features{
		ServerVersion: "29.0.0", APIVersion: "1.52", CgroupVersion: 2, CgroupDriver: "systemd",
		Runtimes: []string{"kata", "runc"}, DefaultRuntime: "runc", RecursiveReadOnly: []string{"runc"},
		Seccomp: true, AppArmor: true, SELinux: true, CDI: true, SwapLimit: true, NegativeOOMScore: true,
	}
}

func ownUsers() *runtimeapi.NamespaceOption {
	ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
	return &runtimeapi.NamespaceOption{UsernsOptions: &runtimeapi.UserNamespace{Uids: ids, Gids: ids}}
}

// apparmorProfiles is the kernel's list of AppArmor profiles.
const apparmorProfiles = "/sys/kernel/security/apparmor/profiles"

func localhost() *runtimeapi.SecurityProfile { return localhostAt("/profile") }

func localhostAt(ref string) *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: ref}
}

func number(v int64) *runtimeapi.Int64Value { return &runtimeapi.Int64Value{Value: v} }

// relabel changes a request so that its mount is relabelled.
func relabel(r *request, source string, recursive bool) {
	r.security().SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
	r.features.RecursiveReadOnly = []string{r.features.DefaultRuntime}
	mount := r.container.Mounts[0]
	mount.HostPath, mount.SelinuxRelabel, mount.Readonly, mount.RecursiveReadOnly = source, true, recursive, recursive
}
