package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// TestFieldsOfNotes checks the fields that the Docker API lacks, on every engine. criadapter-oci sets them from the
// container's OCI note.
func TestFieldsOfNotes(t *testing.T) {
	n := newFieldsNode(t)
	n.pod = runSandbox(t, n.server, n.config)
	below := filepath.Join(n.dir, "below")
	testutil.Must(n, os.MkdirAll(below, 0o777))
	testutil.Must(n, unix.Mount("below", below, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(below, unix.MNT_DETACH) })
	testutil.WriteFile(t, filepath.Join(n.dir, "script"), "#!/bin/sh\necho ran\n")
	testutil.Must(n, os.Chmod(filepath.Join(n.dir, "script"), 0o755))
	t.Run("status", func(t *testing.T) {
		status, err := n.server.Runtime.Status(t.Context(), false)
		testutil.Must(n, err)
		features := status.GetFeatures()
		testutil.Assert(t, features.GetSupplementalGroupsPolicy() && features.GetMountOptions(),
			"announced are %v", features)
	})
	n.imageGroups(t)
	n.ambientCapabilities(t)
	n.mountsWithOptions(t)
	n.limitsFromTheStart(t)
	n.wholeProfile(t)
}

// wholeProfile checks that the OCI runtime gets all fields of a seccomp profile, also the fields that Docker Engine
// 20.10 leaves out.
func (n *fieldsNode) wholeProfile(t *testing.T) {
	profile := filepath.Join(n.dir, "seccomp.json")
	testutil.WriteFile(t, profile, `{"defaultAction":"SCMP_ACT_ALLOW","defaultErrnoRet":38,
		"syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}`)
	id, pid := n.run(noted("profile", &runtimeapi.LinuxContainerSecurityContext{
		Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: profile},
	}))
	t.Run("a whole seccomp profile", func(t *testing.T) {
		same(t, "its system call inside", n.sh(id, "mkdir /new"),
			"mkdir: can't create directory '/new': Operation not permitted")
		var spec struct {
			Linux struct{ Seccomp struct{ DefaultErrnoRet int } }
		}
		n.bundle(id, pid, &spec)
		got := spec.Linux.Seccomp
		testutil.Assert(t, got.DefaultErrnoRet == 38, "the runtime was given %+v", got)
	})
}

// bundle reads the OCI specification of a container.
func (n *fieldsNode) bundle(id string, pid int, spec any) {
	n.Helper()
	text, err := docker.RuntimeSpec(id, pid)
	testutil.Must(n, err)
	testutil.Must(n, json.Unmarshal(text, spec))
}

// noted is the configuration of a container that sleeps.
func noted(name string, security *runtimeapi.LinuxContainerSecurityContext) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name}, Command: []string{"sleep", "1000000"},
		Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: security,
			Resources: &runtimeapi.LinuxContainerResources{}},
	}
}

// imageGroups checks containers of an image that has one more group for its user.
func (n *fieldsNode) imageGroups(t *testing.T) {
	plain := n.image
	defer func() { n.image = plain }()
	n.image = pull(t, n.server, rigenv.Require(t).Image("k8s-staging-cri-tools/test-image-predefined-group:latest"))
	n.strictGroups(t)
	n.mergedGroups(t)
}

// mergedGroups checks a user with a group, to which the engine adds no groups of the image. It runs a command through
// CRI, which goes straight to the OCI runtime where possible, and a command through the engine.
func (n *fieldsNode) mergedGroups(t *testing.T) {
	for name, sc := range map[string]*runtimeapi.LinuxContainerSecurityContext{
		"by-id":   {RunAsUser: &runtimeapi.Int64Value{Value: 1000}},
		"by-name": {RunAsUsername: "default-user"},
	} {
		sc.RunAsGroup, sc.SupplementalGroups = &runtimeapi.Int64Value{Value: 2000}, []int64{77}
		id, pid := n.run(noted("merged-"+name, sc))
		t.Run("merged groups", func(t *testing.T) {
			same(t, name+": the process from outside", n.procStatus(pid, "Groups"), "77 2000 50000")
			host := rigenv.Require(t).DockerHost
			engine.Docker(t, host, "exec", "--user=0", id, "sh", "-c", "echo more:x:5:default-user >>/etc/group")
			same(t, name+": a command inside", n.sh(id, "id -G"), "2000 77 50000")
			same(t, name+": a command of the engine", engine.Docker(t, host, "exec", id, "id", "-G"), "2000 77 50000")
			status, err := n.server.Runtime.ContainerStatus(t.Context(), id, false)
			testutil.Must(t, err)
			user := status.GetStatus().GetUser().GetLinux()
			testutil.Assert(t, user.GetUid() == 1000 && user.GetGid() == 2000 &&
				slices.Equal(user.GetSupplementalGroups(), []int64{2000, 77, 50000}),
				"%s: ContainerStatus shows the user %v", name, user)
		})
	}
}

func (n *fieldsNode) strictGroups(t *testing.T) {
	merged, _ := n.run(noted("merged", &runtimeapi.LinuxContainerSecurityContext{SupplementalGroups: []int64{77}}))
	id, pid := n.run(noted("strict", &runtimeapi.LinuxContainerSecurityContext{
		SupplementalGroups: []int64{77}, SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
	}))
	t.Run("strict groups", func(t *testing.T) {
		same(t, "groups of the image and the pod", n.sh(merged, "id -G"), "1000 77 50000")
		same(t, "the process from outside", n.procStatus(pid, "Groups"), "77 1000")
		same(t, "a command inside", n.sh(id, "id -G"), "1000 77")
		status, err := n.server.Runtime.ContainerStatus(t.Context(), id, false)
		testutil.Must(n, err)
		user := status.GetStatus().GetUser().GetLinux()
		testutil.Assert(t, user.GetUid() == 1000 && user.GetGid() == 1000 &&
			slices.Equal(user.GetSupplementalGroups(), []int64{1000, 77}),
			"ContainerStatus shows the user %v", user)
	})
}

func (n *fieldsNode) ambientCapabilities(t *testing.T) {
	const netRaw = "0000000000002000"
	id, pid := n.run(noted("ambient", &runtimeapi.LinuxContainerSecurityContext{
		RunAsUser: &runtimeapi.Int64Value{Value: 1234},
		Capabilities: &runtimeapi.Capability{AddAmbientCapabilities: []string{"NET_RAW"},
			DropCapabilities: []string{"ALL"}},
	}))
	t.Run("ambient capabilities", func(t *testing.T) {
		for _, set := range []string{"CapAmb", "CapEff", "CapPrm", "CapBnd"} {
			same(t, set+" from outside", n.procStatus(pid, set), netRaw)
			same(t, set+" of a command inside", n.sh(id, "grep "+set+" /proc/self/status"), set+": "+netRaw)
		}
	})
}

func (n *fieldsNode) mountsWithOptions(t *testing.T) {
	config := noted("mounts", nil)
	config.Mounts = []*runtimeapi.Mount{
		{HostPath: n.dir, ContainerPath: "/plain"},
		{HostPath: n.dir, ContainerPath: "/options", MountOptions: []string{"noexec", "nosuid", "nodev", "noatime"}},
		{HostPath: n.dir, ContainerPath: "/readonly", Readonly: true},
		{HostPath: n.dir, ContainerPath: "/recursive", Readonly: true, RecursiveReadOnly: true,
			MountOptions: []string{"noexec"}},
	}
	id, pid := n.run(config)
	t.Run("mount options", func(t *testing.T) {
		same(t, "a program of a plain mount", n.sh(id, "/plain/script"), "ran")
		same(t, "a program of a mount with noexec", n.sh(id, "/options/script"),
			"sh: /options/script: Permission denied")
		same(t, "a program of a recursive read-only mount", n.sh(id, "/recursive/script"),
			"sh: /recursive/script: Permission denied")
		line := n.mountAt(pid, "/options")
		testutil.Assert(t, strings.Contains(line, " rw,nosuid,nodev,noexec,noatime "),
			"from outside the mount is %q", line)
		line = n.mountAt(pid, "/plain")
		testutil.Assert(t, !strings.Contains(line, "noexec"), "from outside the plain mount is %q", line)
	})
	t.Run("recursive read-only", func(t *testing.T) {
		same(t, "a file below a read-only mount", n.sh(id, "touch /readonly/below/x && echo written"), "written")
		same(t, "a file below a recursive read-only mount", n.sh(id, "touch /recursive/below/y && echo written"),
			"touch: /recursive/below/y: Read-only file system")
		line := n.mountAt(pid, "/recursive/below")
		testutil.Assert(t, strings.Contains(line, " ro,"), "from outside the mount below is %q", line)
	})
	t.Run("an unsupported option", func(t *testing.T) {
		config := noted("shared", nil)
		config.Mounts = []*runtimeapi.Mount{{HostPath: n.dir, ContainerPath: "/x", MountOptions: []string{"rshared"}}}
		_, err := n.create(config)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), "config.mounts[0].mount_options[0]: "),
			"got %v", err)
	})
}

// limitsFromTheStart has the container's first process print its limits. They must apply before that process starts.
func (n *fieldsNode) limitsFromTheStart(t *testing.T) {
	const key = "hugetlb.1GB.max"
	config := noted("limits", nil)
	config.Command = []string{"sh", "-c",
		"cat /sys/fs/cgroup/hugetlb.2MB.max /sys/fs/cgroup/" + key + "; exec sleep 1000000"}
	config.Linux.Resources.HugepageLimits = []*runtimeapi.HugepageLimit{{PageSize: "2MB", Limit: 4 << 20}}
	config.Linux.Resources.Unified = map[string]string{key: "1073741824"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		t.Run("unified keys on cgroup v1", func(t *testing.T) {
			_, err := n.create(config)
			testutil.Assert(t, err != nil &&
				strings.Contains(err.Error(), "config.linux.resources.unified: "+key+" is a file of cgroup v2"),
				"got %v", err)
		})
		return
	}
	t.Run("limits from the start on", func(t *testing.T) {
		rigenv.RequireControllers(t, "hugetlb")
		_, pid := n.run(config)
		for name, want := range map[string]string{"hugetlb.2MB.max": "4194304", key: "1073741824"} {
			n.wantCgroup(pid, "", "hugetlb", "", want, name, want)
		}
		testutil.Eventually(t, func() error {
			log, err := os.ReadFile(filepath.Join(n.config.LogDirectory, "limits.log"))
			if text := string(log); !strings.Contains(text, " F 4194304\n") ||
				!strings.Contains(text, " F 1073741824\n") {
				return fmt.Errorf("the log holds %q, %v", log, err)
			}
			return nil
		})
	})
}

// TestRuntimeAnnotations checks that the OCI runtime gets only the annotations that --runtime-annotations names.
func TestRuntimeAnnotations(t *testing.T) {
	n := newFieldsNode(t, "--runtime-annotations=passed.example/*")
	n.config.Annotations = map[string]string{"passed.example/pod": "p", "other.example/pod": "x"}
	n.pod = runSandbox(t, n.server, n.config)
	config := noted("annotated", nil)
	config.Annotations = map[string]string{"passed.example/container": "c", "other.example/container": "x"}
	id, pid := n.run(config)
	var spec struct{ Annotations map[string]string }
	n.bundle(id, pid, &spec)
	if spec.Annotations["passed.example/pod"] != "p" || spec.Annotations["passed.example/container"] != "c" {
		t.Errorf("the runtime was given %v", spec.Annotations)
	}
	for key := range spec.Annotations {
		testutil.Assert(t, !strings.HasPrefix(key, "other.example/"), "the runtime was given %s", key)
	}
}
