package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// imageNode is a server with a pod, an image to run and an image to mount.
type imageNode struct {
	t      *testing.T
	server *adapter.Server
	config *runtimeapi.PodSandboxConfig
	pod    string
	// run and mounted are the ids of the images.
	run, mounted string
	attempts     uint32
}

func newImageNode(t *testing.T) *imageNode {
	t.Helper()
	env := rigenv.Require(t)
	n := &imageNode{t: t, server: adapter.ForTest(t, adapter.Options{Env: env})}
	n.run = pull(t, n.server, env.Image("test/busybox:latest"))
	n.mounted = pull(t, n.server, env.Image("test/multi:b"))
	name := rigenv.Unique(t.Name())
	n.config = &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "e2e", Uid: name + "-uid"},
		LogDirectory: filepath.Join(n.server.Dir, "logs"),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
	n.pod = runSandbox(t, n.server, n.config)
	return n
}

func (n *imageNode) mount(target, subPath string) *runtimeapi.Mount {
	return &runtimeapi.Mount{ContainerPath: target, Image: &runtimeapi.ImageSpec{Image: n.mounted},
		ImageSubPath: subPath}
}

func (n *imageNode) create(mounts ...*runtimeapi.Mount) (string, error) {
	n.t.Helper()
	n.attempts++
	return n.server.Runtime.CreateContainer(n.t.Context(), n.pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main", Attempt: n.attempts},
		Image:    &runtimeapi.ImageSpec{Image: n.run},
		Command:  []string{"sleep", "1000000"},
		Mounts:   mounts,
	}, n.config)
}

func (n *imageNode) start(mounts ...*runtimeapi.Mount) string {
	n.t.Helper()
	id, err := n.create(mounts...)
	testutil.Must(n.t, err)
	testutil.Must(n.t, n.server.Runtime.StartContainer(n.t.Context(), id))
	return id
}

// shell runs a script in the container and returns its output.
func (n *imageNode) shell(id, script string) string {
	n.t.Helper()
	stdout, stderr, err := n.server.Runtime.ExecSync(n.t.Context(), id, []string{"sh", "-c", script}, time.Minute)
	testutil.Assert(n.t, err == nil, "%s: %v", script, err)
	return string(stdout) + string(stderr)
}

func (n *imageNode) remove(id string) {
	n.t.Helper()
	testutil.Check(n.t, n.server.Runtime.RemoveContainer(n.t.Context(), id))
}

func (n *imageNode) removeImage() error {
	return n.server.Images.RemoveImage(n.t.Context(), &runtimeapi.ImageSpec{Image: n.mounted})
}

// files is where the image's files are on an engine that does not mount images.
func (n *imageNode) files() string {
	return filepath.Join(n.server.RootDir, "image-volumes", strings.TrimPrefix(n.mounted, "sha256:"), "fs")
}

func TestImageVolumes(t *testing.T) {
	n := newImageNode(t)
	id := n.start(n.mount("/all", ""), n.mount("/deep/part", "bin"), n.mount("/file", "multi"))
	got := n.shell(id, "cat /all/multi /file; test -x /all/bin/sh && ls -l /deep/part/sh | cut -c1")
	testutil.Assert(t, got == "multi\nmulti\n-\n" || got == "multi\nmulti\nl\n", "the container sees %q", got)
	for _, script := range []string{"touch /all/new", "echo x > /file", "rm /all/multi", "mount -o remount,rw /all"} {
		testutil.Equal(t, n.shell(id, "("+script+") 2>/dev/null && echo written; true"), "", "%s", script)
	}
	answer, err := n.server.Runtime.ContainerStatus(t.Context(), id, false)
	testutil.Must(t, err)
	mounts := answer.GetStatus().GetMounts()
	for _, mount := range mounts {
		if ref := mount.GetImage().GetImageRef(); mount.GetImage() != nil && !strings.Contains(ref, "@sha256:") {
			t.Errorf("the image at %s has the reference %q, want its name by digest", mount.GetContainerPath(), ref)
		}
	}
	if len(mounts) != 3 || mounts[1].GetImage().GetImage() != n.mounted || mounts[1].GetImageSubPath() != "bin" ||
		mounts[1].GetHostPath() != "" {
		t.Errorf("mounts in the status: %v", mounts)
	}

	wantCode(t, "RemoveImage of a mounted image", n.removeImage(), codes.FailedPrecondition)
	n.server.Kill()
	testutil.Must(t, n.server.Start(t.Context()))
	testutil.Equal(t, n.shell(id, "cat /all/multi"), "multi\n", "after a crash the container sees")
	wantCode(t, "RemoveImage of a mounted image after a crash", n.removeImage(), codes.FailedPrecondition)
	second := n.start(n.mount("/all", "bin"))
	n.remove(id)
	wantCode(t, "RemoveImage of an image that one container has mounted", n.removeImage(), codes.FailedPrecondition)
	_, err = os.Stat(n.files())
	testutil.Check(t, err, "the files of a mounted image")
	n.remove(second)
	testutil.Check(t, n.removeImage(), "RemoveImage")
}

// TestUnusedImageFilesAreRemoved removes the only container with a mount of old files. The server removes the files,
// and extracts them again for the next mount.
func TestUnusedImageFilesAreRemoved(t *testing.T) {
	n := newImageNode(t)
	id := n.start(n.mount("/part", "bin"))
	old := time.Now().Add(-time.Hour)
	testutil.Must(t, os.Chtimes(filepath.Dir(n.files()), old, old))
	n.remove(id)
	testutil.Eventually(t, func() error {
		if _, err := os.Stat(n.files()); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the files are still there: %v", err)
		}
		return nil
	})
	n.remove(n.start(n.mount("/part", "bin"))) // the server extracts them again
}

func TestImageVolumesThatFail(t *testing.T) {
	n := newImageNode(t)
	for name, test := range map[string]struct {
		mount *runtimeapi.Mount
		code  codes.Code
		text  string
	}{
		"no such part": {n.mount("/a", "no/such"), codes.Unknown,
			"ImageVolumeMountFailed: config.mounts[0].image_sub_path: "},
		"no such image": {
			&runtimeapi.Mount{ContainerPath: "/a",
				Image: &runtimeapi.ImageSpec{Image: "sha256:" + strings.Repeat("0", 64)}},
			codes.NotFound, "config.mounts[0].image.image: pull ",
		},
		"a part above": {n.mount("/a", "../etc"), codes.InvalidArgument, "config.mounts[0].image_sub_path: "},
		"no name": {&runtimeapi.Mount{ContainerPath: "/a", Image: &runtimeapi.ImageSpec{}}, codes.InvalidArgument,
			"config.mounts[0].image.image: "},
	} {
		_, err := n.create(test.mount)
		wantCode(t, name, err, test.code)
		testutil.Assert(t, err == nil || strings.Contains(err.Error(), test.text), "%s: %v, want it to say %q", name,
			err, test.text)
	}
	containers, err := n.server.Runtime.ListContainers(t.Context(), &runtimeapi.ContainerFilter{PodSandboxId: n.pod})
	testutil.Assert(t, err == nil && len(containers) <= 0, "containers were made: %v, %v", containers, err)
}
