package image_test

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/artifacts"
)

// TestRigArtifactIsAnImage pulls artifacts on the real engine, lists them, and removes them by each kind of name.
func TestRigArtifactIsAnImage(t *testing.T) {
	r := newRig(t, image.Options{})
	repository := r.env.Registry + "/" + name(t)
	for _, config := range []types.MediaType{
		artifacts.Empty, "application/vnd.cncf.helm.config.v1+json",
	} {
		img := artifacts.New(t, config, "model.bin", "weights of "+string(config))
		digest, err := img.Digest()
		testutil.Must(t, err)
		digested := repository + "@" + digest.String()
		for i, remove := range []string{repository + ":1", digest.String(), digested, digest.Hex[:12]} {
			artifacts.Push(t, repository+":1", img)
			id := r.pull(t, repository+":1")
			testutil.Equal(t, id, digest.String(), "id of the artifact")
			present := r.status(t, repository+":1")
			testutil.Equal(t, strings.Join(present.GetRepoTags(), " "), repository+":1", "tags")
			testutil.Equal(t, strings.Join(present.GetRepoDigests(), " "), digested, "digests")
			testutil.Assert(t, present.GetSize() > 30, "its size is %d", present.GetSize())
			listed, err := r.List(t.Context(), nil)
			testutil.Must(t, err)
			isIt := func(img *runtimeapi.Image) bool { return img.GetId() == id }
			testutil.Assert(t, slices.ContainsFunc(listed, isIt), "the list lacks the artifact: %v", listed)
			artifact, err := r.IsArtifact(t.Context(), id)
			testutil.Assert(t, err == nil && artifact, "the image is not an artifact: %v", err)
			if i == 2 { // a pull by digest alone gives no tag
				testutil.Must(t, r.Remove(t.Context(), spec(id)))
				r.pull(t, digested)
				tags := r.status(t, digested).GetRepoTags()
				testutil.Assert(t, len(tags) == 0, "tags after a pull by digest: %v", tags)
			}
			testutil.Must(t, r.Remove(t.Context(), spec(remove)))
			testutil.Assert(t, r.status(t, id) == nil, "the artifact is there after its removal by %s", remove)
		}
	}
}

// TestRigTagMovesBetweenImageAndArtifact pulls one tag that names an image, then an artifact, then the image again.
func TestRigTagMovesBetweenImageAndArtifact(t *testing.T) {
	r := newRig(t, image.Options{})
	local := name(t)
	ref := r.env.Registry + "/" + local + ":1"
	img := fresh(t, 64, v1.Config{})
	r.push(t, img, local+":1")
	imageID := r.pull(t, ref)
	artifacts.Push(t, ref, artifacts.New(t, artifacts.Empty, "model.bin", "moved"))
	artifactID := r.pull(t, ref)
	testutil.Equal(t, r.status(t, ref).GetId(), artifactID, "tag after the artifact's pull")
	r.Relist() // the engine may still have the tag on the image
	_, err := r.List(t.Context(), nil)
	testutil.Must(t, err)
	testutil.Equal(t, r.status(t, ref).GetId(), artifactID, "tag after a relist")
	artifacts.Push(t, ref, img)
	again := r.pull(t, ref)
	testutil.Equal(t, again, imageID, "id of the image that is pulled again")
	testutil.Equal(t, r.status(t, ref).GetId(), imageID, "tag after the image's pull")
	testutil.Must(t, r.Remove(t.Context(), spec(artifactID)))
}

// TestRigArtifactOfAnIndex pulls an index with an artifact for the node's platform. The artifact has the digest of the
// index.
func TestRigArtifactOfAnIndex(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := r.env.Registry + "/" + name(t) + ":1"
	features, err := r.engine.Features(t.Context())
	testutil.Must(t, err)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add:        artifacts.New(t, artifacts.Empty, "model.bin", "of this platform"),
		Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: features.OS, Architecture: features.Arch}},
	})
	artifacts.Push(t, ref, index)
	id := r.pull(t, ref)
	digest, err := index.Digest()
	testutil.Must(t, err)
	testutil.Assert(t, slices.ContainsFunc(r.status(t, ref).GetRepoDigests(), func(name string) bool {
		return strings.HasSuffix(name, digest.String())
	}), "the artifact lacks the digest of its index: %v", r.status(t, ref))
	testutil.Must(t, r.Remove(t.Context(), spec(id)))
}

// TestRigPolicyJudgesArtifacts pulls an artifact under a policy that demands signatures.
func TestRigPolicyJudgesArtifacts(t *testing.T) {
	r := newPolicyRig(t)
	repository := r.env.Registry + "/" + name(t)
	good := artifacts.New(t, artifacts.Empty, "model.bin", "signed")
	artifacts.Push(t, repository+":1", good)
	_, err := r.Pull(t.Context(), spec(repository+":1"), nil)
	r.wantRefusal(t, err)
	r.sign(t, good, repository)
	id := r.pull(t, repository+":1")
	testutil.Equal(t, r.status(t, repository+":1").GetId(), id, "artifact of the tag")
	testutil.Must(t, r.Allow(t.Context(), id, repository+":1"))

	artifacts.Push(t, repository+":1", artifacts.New(t, artifacts.Empty, "model.bin", "unsigned"))
	_, err = r.Pull(t.Context(), spec(repository+":1"), nil)
	r.wantRefusal(t, err)
	testutil.Equal(t, r.status(t, repository+":1").GetId(), id, "artifact of the tag after the refusal")
	testutil.Must(t, r.Remove(t.Context(), spec(id)))
}
