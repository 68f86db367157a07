package image_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestRigMirror pulls an image of a registry that does not exist through the mirror in its hosts.toml. Engines with the
// containerd image store read this file. The image then has only names of that registry, not of the mirror.
func TestRigMirror(t *testing.T) {
	r := newRig(t, image.Options{})
	features, err := r.engine.Features(t.Context())
	testutil.Must(t, err)
	const host = "mirrored.invalid"
	dir := filepath.Join("/etc/docker/certs.d", host)
	testutil.Must(t, os.MkdirAll(dir, 0o755))
	t.Cleanup(func() { testutil.Check(t, os.RemoveAll(dir)) })
	testutil.WriteFile(t, filepath.Join(dir, "hosts.toml"), fmt.Sprintf(
		"server = \"https://%s\"\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", host,
		r.env.Registry))
	local, img := name(t), fresh(t, 64, v1.Config{})
	r.push(t, img, local+":1")
	digest, err := img.Digest()
	testutil.Must(t, err)
	repository := host + "/" + local
	id, err := r.Pull(t.Context(), spec(repository+":1"), nil)
	if !features.ContainerdImageStore {
		testutil.Require(t, errors.Is(err, crierrors.ErrRegistryUnavailable), "pull: got %v", err)
		return
	}
	testutil.Must(t, err)
	present := r.status(t, repository+"@"+digest.String())
	testutil.Require(t, present.GetId() == id, "image of the digest: got %v, want %s", present, id)
	testutil.Equal(t, strings.Join(present.GetRepoTags(), " "), repository+":1", "tags")
	testutil.Equal(t, strings.Join(present.GetRepoDigests(), " "), repository+"@"+digest.String(), "digests")
	testutil.Must(t, r.Remove(t.Context(), spec(id)))
}
