package translate

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

func userIDs(first, count uint32) []*runtimeapi.IDMapping {
	return []*runtimeapi.IDMapping{{HostId: first, Length: count}}
}

func ownUsers() *runtimeapi.UserNamespace {
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: userIDs(65536, 1000),
		Gids: userIDs(131072, 1000)}
}

// mappingEngine is an engine with the runtime criadapter-oci, where user namespaces work.
func mappingEngine() docker.Features {
	f := oldEngine()
	f.OCIRuntime = docker.OCIRuntime{Name: "criadapter", Notes: ocinote.DefaultDir, UserNamespaces: true}
	return f
}

// mappedPod is a pod with a user namespace of its own.
func mappedPod() SandboxInput {
	in := sandboxInput()
	in.Features = mappingEngine()
	podNamespaces(in.Config).UsernsOptions = ownUsers()
	return in
}

// mappedContainer is a container of such a pod.
func mappedContainer() ContainerInput {
	in := withoutContainer()
	in.Features = mappingEngine()
	in.Sandbox.UserNamespace = "/run/p/user"
	podOptions(in).UsernsOptions, options(in).UsernsOptions = ownUsers(), ownUsers()
	return in
}

func TestPodsWithUserNamespaces(t *testing.T) {
	in := mappedPod()
	podNamespaces(in.Config).Pid = runtimeapi.NamespaceMode_CONTAINER
	in.Config.Linux.Sysctls = map[string]string{"kernel.sem": "1"}
	users := &Users{UIDs: ocinote.IDMapping{HostID: 65536, Size: 1000},
		GIDs: ocinote.IDMapping{HostID: 131072, Size: 1000}}
	pod, able, err := WithoutContainer(in)
	want := map[string]string{"net.ipv4.ping_group_range": "0 999", "net.ipv4.ip_unprivileged_port_start": "0",
		"kernel.sem": "1"}
	testutil.Assert(t, err == nil && able && reflect.DeepEqual(pod.Users, users) &&
		reflect.DeepEqual(pod.Sysctls, want), "without a container: %+v, %t, %v", pod, able, err)
	spec, err := Sandbox(in)
	testutil.Must(t, err)
	spec, err = InUserNamespace(spec, in.Config, *users, "/run/u", in.Features)
	note := &ocinote.Note{
		Namespaces:  map[string]string{"user": "/run/u"},
		UIDMappings: []ocinote.IDMapping{users.UIDs}, GIDMappings: []ocinote.IDMapping{users.GIDs},
		Sysctls: map[string]string{"net.ipv4.ping_group_range": "0 999"},
	}
	testutil.Assert(t, err == nil && reflect.DeepEqual(spec.Note, note),
		"the sandbox container has %+v, %v, want %+v", spec.Note, err, note)
	in.Config.Linux.Sysctls = map[string]string{"net.ipv4.ping_group_range": "1 2"}
	if pod, _, err := WithoutContainer(in); err != nil || pod.Sysctls["net.ipv4.ping_group_range"] != "1 2" {
		t.Errorf("a range of the pod's becomes %v, %v", pod.Sysctls, err)
	}
}

func TestUserNamespacesThatPodsCannotHave(t *testing.T) {
	const field = "config.linux.security_context.namespace_options.userns_options"
	for name, c := range map[string]struct {
		change      func(*SandboxInput, *runtimeapi.NamespaceOption)
		unsupported bool
		want        string
	}{
		"two mappings": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.UsernsOptions.Uids = append(ns.UsernsOptions.Uids, userIDs(1, 1)...)
		}, false, field + ".uids: has 2"},
		"no groups": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.UsernsOptions.Gids = nil
		}, false, field + ".gids: has 0"},
		"no root": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.UsernsOptions.Gids[0].ContainerId = 1
		}, false, field + ".gids[0].container_id"},
		"nobody": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.UsernsOptions.Uids = userIDs(7, 0)
		}, false, field + ".uids[0].length"},
		"too many": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.UsernsOptions.Uids = userIDs(math.MaxUint32, 1)
		}, false, field + ".uids[0].length"},
		"the node's network": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.Network = runtimeapi.NamespaceMode_NODE
		}, false, field + ": a pod with the node's network"},
		"CONTAINER": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.UsernsOptions.Mode = runtimeapi.NamespaceMode_CONTAINER
		}, false, field + ".mode"},
		"mappings of the node's": {func(_ *SandboxInput, ns *runtimeapi.NamespaceOption) {
			ns.UsernsOptions.Mode = runtimeapi.NamespaceMode_NODE
		}, false, field + ": mappings go with"},
		"no runtime": {func(in *SandboxInput, _ *runtimeapi.NamespaceOption) {
			in.Features = oldEngine()
		}, true, field + ": a user namespace of the pod's own needs"},
		"a runtime that cannot": {func(in *SandboxInput, _ *runtimeapi.NamespaceOption) {
			in.Features.OCIRuntime.UserNamespaces, in.Features.OCIRuntime.NoUserNamespaces = false,
				"because of the moon"
		}, true, "because of the moon"},
		"the engine's bridge": {func(in *SandboxInput, _ *runtimeapi.NamespaceOption) {
			in.PublishPorts = true
		}, true, field + ": with --network-plugin=bridge"},
	} {
		t.Run(name, func(t *testing.T) {
			in := mappedPod()
			c.change(&in, podNamespaces(in.Config))
			_, err := Sandbox(in)
			testutil.Assert(t, err != nil && errdefs.IsNotImplemented(err) == c.unsupported &&
				errdefs.IsInvalidArgument(err) != c.unsupported && strings.Contains(err.Error(), c.want),
				"%v, want %q", err, c.want)
		})
	}
}

func TestContainerJoinsItsPodsUsers(t *testing.T) {
	in := mappedContainer()
	in.Config.Mounts = []*runtimeapi.Mount{
		{HostPath: "/srv", ContainerPath: "/mapped", UidMappings: userIDs(65536, 1000),
			GidMappings: userIDs(131072, 1000)},
		{HostPath: "/srv", ContainerPath: "/plain"},
	}
	for range 2 {
		spec, err := Container(in)
		testutil.Must(t, err)
		note := spec.Note
		testutil.Assert(t, note.Namespaces["user"] == "/run/p/user" &&
			reflect.DeepEqual(note.UIDMappings, []ocinote.IDMapping{{HostID: 65536, Size: 1000}}) &&
			reflect.DeepEqual(note.GIDMappings, []ocinote.IDMapping{{HostID: 131072, Size: 1000}}) &&
			reflect.DeepEqual(note.MappedMounts, []string{"/mapped"}), "the note is %+v", note)
		options(in).UsernsOptions = nil // a container without the field joins the pod's
	}
}

// The owners of an image's files are mapped to the pod's users, whether or not the mount has mappings. In a pod with
// the node's users they are not mapped.
func TestImagesAreMappedInAUserNamespace(t *testing.T) {
	for _, ids := range [][]*runtimeapi.IDMapping{nil, userIDs(65536, 1000)} {
		in := mappedContainer()
		in.Config.Mounts = []*runtimeapi.Mount{{ContainerPath: "/img", Image: &runtimeapi.ImageSpec{Image: "models:1"}}}
		if ids != nil {
			in.Config.Mounts[0].UidMappings, in.Config.Mounts[0].GidMappings = ids, userIDs(131072, 1000)
		}
		in.ImageSources = map[int]ImageSource{0: {ID: "sha256:1", Path: "/images/1/fs"}}
		spec, err := Container(in)
		testutil.Assert(t, err == nil && reflect.DeepEqual(spec.Note.MappedMounts, []string{"/img"}),
			"%v: %+v, %v", ids, spec.Note, err)
		podOptions(in).UsernsOptions, options(in).
			UsernsOptions, in.Config.Mounts[0].UidMappings, in.Config.Mounts[0].GidMappings = nil, nil, nil, nil
		if spec, err := Container(in); err != nil || len(spec.Note.MappedMounts) > 0 {
			t.Errorf("the node's users: %+v, %v", spec.Note, err)
		}
	}
}

func TestUsersThatAContainerCannotHave(t *testing.T) {
	mounted := func(m *runtimeapi.Mount) func(*ContainerInput) {
		m.HostPath, m.ContainerPath = "/srv", "/data"
		return func(in *ContainerInput) { in.Config.Mounts = []*runtimeapi.Mount{m} }
	}
	for want, change := range map[string]func(*ContainerInput){
		"the mappings differ from the pod's": func(in *ContainerInput) {
			options(*in).UsernsOptions.Uids = userIDs(1,
				1)
		},
		"the pod has a user namespace of its own": func(in *ContainerInput) {
			options(*in).UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}
		},
		"the pod has the node's user namespace": func(in *ContainerInput) { podOptions(*in).UsernsOptions = nil },
		"namespace_options.pid: the pod has a user namespace": func(in *ContainerInput) {
			options(*in).Pid = runtimeapi.NamespaceMode_NODE
		},
		"namespace_options.ipc: the pod has a user namespace": func(in *ContainerInput) {
			options(*in).Ipc = runtimeapi.NamespaceMode_NODE
		},
		"the record of the pod is lost":      func(in *ContainerInput) { in.Sandbox.UserNamespace = "" },
		"mounts[0].uidMappings: a mount can": mounted(&runtimeapi.Mount{UidMappings: userIDs(1, 1)}),
		"mounts[0].gidMappings: a mount can": mounted(&runtimeapi.Mount{GidMappings: userIDs(131072, 1000)}),
		"mounts[0].propagation": mounted(
			&runtimeapi.Mount{Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL}),
	} {
		in := mappedContainer()
		change(&in)
		_, err := Container(in)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), want), "%v, want %q", err, want)
	}
}
