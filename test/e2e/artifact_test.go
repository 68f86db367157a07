package e2e

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/artifacts"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// pushArtifact uploads an artifact of two files, and returns its name.
func pushArtifact(t *testing.T) string {
	t.Helper()
	ref := rigenv.Require(t).Registry + "/" + strings.ToLower(rigenv.Unique(t.Name())) + ":1"
	artifacts.Push(t, ref,
		artifacts.New(t, artifacts.Empty, "model.bin", "weights\n", "docs/card.txt", "card\n"))
	return ref
}

// TestArtifactVolumes mounts an OCI artifact (KEP-4639): all of it, a file and a directory. The mounts must survive a
// crash of the server.
func TestArtifactVolumes(t *testing.T) {
	n := newImageNode(t)
	n.mounted = pull(t, n.server, pushArtifact(t))
	id := n.start(n.mount("/all", ""), n.mount("/model", "model.bin"), n.mount("/docs", "docs"))
	const want = "weights\ncard\nweights\ncard\n644 root\n"
	script := "cat /all/model.bin /all/docs/card.txt /model /docs/card.txt; stat -c '%a %U' /all/model.bin"
	testutil.Equal(t, n.shell(id, script), want, "the container sees")
	for _, script := range []string{"touch /all/new", "echo x > /model", "rm /docs/card.txt"} {
		testutil.Equal(t, n.shell(id, "("+script+") 2>/dev/null && echo written; true"), "", "%s", script)
	}

	wantCode(t, "RemoveImage of a mounted artifact", n.removeImage(), codes.FailedPrecondition)
	n.server.Kill()
	testutil.Must(t, n.server.Start(t.Context()))
	testutil.Equal(t, n.shell(id, script), want, "after a crash the container sees")
	wantCode(t, "RemoveImage of a mounted artifact after a crash", n.removeImage(), codes.FailedPrecondition)
	second := n.start(n.mount("/all", ""))
	testutil.Equal(t, n.shell(second, "cat /all/model.bin"), "weights\n", "after a crash another container sees")

	_, err := n.create(n.mount("/all", "missing"))
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "ImageVolumeMountFailed"),
		"a part that the artifact does not have: %v", err)
	n.attempts++
	_, err = n.server.Runtime.CreateContainer(t.Context(), n.pod, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "artifact", Attempt: n.attempts},
		Image:    &runtimeapi.ImageSpec{Image: n.mounted},
	}, n.config)
	wantCode(t, "CreateContainer of an artifact", err, codes.InvalidArgument)

	n.remove(id)
	n.remove(second)
	testutil.Check(t, n.removeImage(), "RemoveImage")
	images, err := n.server.Images.ListImages(t.Context(), nil)
	testutil.Must(t, err)
	for _, image := range images {
		testutil.Assert(t, image.GetId() != n.mounted, "the artifact is listed after its removal")
	}
}
