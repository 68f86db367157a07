package image_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	mobycontainer "github.com/moby/moby/api/types/container"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/artifacts"
)

// member is an image for one platform of an index.
func member(t *testing.T, os, arch string, size int64) mutate.IndexAddendum {
	t.Helper()
	img := fresh(t, size, v1.Config{User: arch})
	file, err := img.ConfigFile()
	testutil.Must(t, err)
	file = file.DeepCopy()
	file.OS, file.Architecture = os, arch
	img, err = mutate.ConfigFile(img, file)
	testutil.Must(t, err)
	return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}}}
}

// pushIndex uploads an index with its members to "repository:tag" and returns its digest.
func (r *rig) pushIndex(t *testing.T, ref string, members ...mutate.IndexAddendum) string {
	t.Helper()
	index := mutate.AppendManifests(empty.Index, members...)
	artifacts.Push(t, r.env.Image(ref), index)
	digest, err := index.Digest()
	testutil.Must(t, err)
	return digest.String()
}

// An index with images for several platforms and an attestation is listed as one image: the image for this platform.
func TestRigImageOfSeveralPlatforms(t *testing.T) {
	r := newRig(t, image.Options{})
	const size = 1 << 20
	ref, here := name(t)+":1", member(t, "linux", "amd64", size)
	attested, err := here.Add.(v1.Image).Digest()
	testutil.Must(t, err)
	attestation := member(t, "unknown", "unknown", 1000)
	attestation.Annotations = map[string]string{
		"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": attested.String(),
	}
	digest := r.pushIndex(t, ref, member(t, "linux", "arm64", size), attestation, here)
	full := r.env.Image(ref)
	repository, _, _ := strings.Cut(full, ":1")
	id := r.pull(t, full)
	t.Cleanup(func() { testutil.Must(t, r.Remove(context.Background(), spec(id))) })
	list, err := r.List(t.Context(), &runtimeapi.ImageFilter{})
	testutil.Must(t, err)
	list = slices.DeleteFunc(list, func(img *runtimeapi.Image) bool {
		return !slices.ContainsFunc(img.GetRepoDigests(), func(d string) bool {
			return strings.HasPrefix(d, repository+"@")
		})
	})
	testutil.Require(t, len(list) == 1, "it is listed %d times: %v", len(list), list)
	for what, got := range map[string]*runtimeapi.Image{"list": list[0], "status": r.status(t, full)} {
		testutil.Assert(t, got.GetId() == id && slices.Equal(got.GetRepoTags(), []string{full}) &&
			slices.Equal(got.GetRepoDigests(), []string{repository + "@" + digest}) && got.GetUsername() == "amd64",
			"the %s has %v; want %s, its tag, the index's digest and this platform's user", what, got, id)
		if got.GetSize() < size || got.GetSize() > 3*size { // at most its packed size plus its unpacked size
			t.Errorf("the %s says that it has %d bytes, one platform's layer has %d", what, got.GetSize(), size)
		}
	}
	container, err := r.engine.CreateContainer(t.Context(), docker.ContainerSpec{
		Config: &mobycontainer.Config{Image: id, Cmd: []string{"/x"}},
		Host:   &mobycontainer.HostConfig{NetworkMode: "none"},
	})
	testutil.Must(t, err)
	inspect, err := r.engine.InspectContainer(t.Context(), container)
	testutil.Assert(t, err == nil && inspect.Image == id,
		"the container says %s, the pull %s (%v)", inspect.Image, id, err)
	testutil.Must(t, r.engine.RemoveContainer(t.Context(), container))
	byDigest := repository + "@" + digest
	again, err := r.Pull(t.Context(), spec(byDigest), nil)
	testutil.Assert(t, err == nil && again == id, "by the index's digest the image is %s, %v; want %s", again, err, id)
	testutil.Must(t, r.Remove(t.Context(), spec(full)))
	left := r.status(t, id)
	testutil.Assert(t, left == nil, "left: %v", left)
}

// The pull of an index without this platform fails with ErrNotFound, and no image is listed.
func TestRigImageWithoutThisPlatform(t *testing.T) {
	r := newRig(t, image.Options{})
	ref := name(t) + ":1"
	r.pushIndex(t, ref, member(t, "linux", "s390x", 1000))
	full := r.env.Image(ref)
	_, err := r.Pull(t.Context(), spec(full), nil)
	testutil.Assert(t, errdefs.IsNotFound(err) && !errors.Is(err, crierrors.ErrRegistryUnavailable),
		"got %v, want ErrNotFound", err)
	left := r.status(t, full)
	testutil.Assert(t, left == nil, "left: %v", left)
}
