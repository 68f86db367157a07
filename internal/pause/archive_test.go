package pause

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

func mustArchive(t *testing.T, arch string) map[string][]byte {
	t.Helper()
	archive, err := Archive(arch)
	testutil.Must(t, err)
	return untar(t, archive)
}

// untar returns the files of an archive and checks that nothing in their headers depends on the time or the machine.
func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		testutil.Must(t, err)
		if h.Typeflag != tar.TypeReg || h.Uid != 0 || h.Gid != 0 || h.Uname+h.Gname != "" || h.ModTime.Unix() != 0 {
			t.Errorf("the header is %+v", h)
		}
		if _, twice := files[h.Name]; twice {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func decode[T any](t *testing.T, content []byte) T {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	testutil.Require(t, err == nil, "%s: %v", content, err)
	return v
}

// The digests are the image's ids. A changed digest makes every node load the image again after an upgrade, so a change
// must be deliberate.
func TestImageIDsAreStable(t *testing.T) {
	for arch, want := range map[string]struct{ config, manifest, archive string }{
		"amd64": {
			config:   "sha256:1c093df33126bf3073b5efe8d3a7cc403a0dc83edcaac5ddbd69e09023921df4",
			manifest: "sha256:c92e3d3e0c4ab8707298aaae2ef074ccc52ed7f67a1566d080f60d3fd77eb374",
			archive:  "sha256:5523cbf92a548159f3aee883aeace950f352928114eab4cc4e9c3f25c3562e01",
		},
		"arm64": {
			config:   "sha256:b05cf0a936211524545b67f7abff38ebba31e56d36ad0a6a6bb03d6da02ed7c3",
			manifest: "sha256:531e335d5aff7eba405f9e178320bbf9cab6b4410738be0343a0abc78db74328",
			archive:  "sha256:e241abffd59436fc0d520dd6447d1f6dd4d6e604175e3ea27e4f40a71838df0b",
		},
	} {
		t.Run(arch, func(t *testing.T) {
			for range 2 {
				config, err := ConfigDigest(arch)
				testutil.Assert(t, err == nil && config == want.config,
					"ConfigDigest is %s, %v; want %s", config, err, want.config)
				manifest, err := ManifestDigest(arch)
				testutil.Assert(t, err == nil && manifest == want.manifest,
					"ManifestDigest is %s, %v; want %s", manifest, err, want.manifest)
				archive, err := Archive(arch)
				got := digest.FromBytes(archive).String()
				testutil.Assert(t, err == nil && got == want.archive,
					"the archive's digest is %s, %v; want %s", got, err, want.archive)
			}
		})
	}
}

// The two descriptions of the image, Docker's and OCI's, must name the same config and layer.
func TestArchiveDescribesOneImageTwice(t *testing.T) {
	for arch := range architectures {
		t.Run(arch, func(t *testing.T) {
			files := mustArchive(t, arch)
			testutil.Equal(t, string(files["oci-layout"]), `{"imageLayoutVersion":"1.0.0"}`, "oci-layout")
			docker := decode[[]dockerManifest](t, files["manifest.json"])
			testutil.Require(t, len(docker) == 1 && slices.Equal(docker[0].RepoTags, []string{Reference}) &&
				len(docker[0].Layers) == 1,
				"manifest.json is %+v", docker)
			index := decode[ocispec.Index](t, files["index.json"])
			testutil.Require(t, len(index.Manifests) == 1, "index.json is %+v", index)
			desc := index.Manifests[0]
			if desc.Annotations["io.containerd.image.name"] != Reference || desc.Platform.Architecture != arch ||
				desc.Platform.OS != "linux" {
				t.Errorf("the image in index.json is %+v", desc)
			}
			manifest := decode[ocispec.Manifest](t, blob(t, files, desc))
			config := blob(t, files, manifest.Config)
			testutil.Require(t, len(manifest.Layers) == 1, "the manifest is %+v", manifest)
			layer := blob(t, files, manifest.Layers[0])
			if !bytes.Equal(config, files[docker[0].Config]) || !bytes.Equal(layer, files[docker[0].Layers[0]]) {
				t.Error("Docker's manifest.json names other blobs")
			}
			testutil.Assert(t, len(files) == 6, "the archive holds %v", slices.Sorted(maps.Keys(files)))
			got := untar(t, layer)
			testutil.Assert(t, len(got) == 1 && bytes.Equal(got["pause"], mustELF(t, arch)),
				"the layer holds %v", slices.Sorted(maps.Keys(got)))
			image := decode[ocispec.Image](t, config)
			testutil.Assert(t, image.Architecture == arch &&
				slices.Equal(image.RootFS.DiffIDs, []digest.Digest{manifest.Layers[0].Digest}),
				"the config is %s", config)
		})
	}
}

// blob returns the blob of a descriptor after checking its digest and size.
func blob(t *testing.T, files map[string][]byte, desc ocispec.Descriptor) []byte {
	t.Helper()
	content, found := files["blobs/sha256/"+desc.Digest.Encoded()]
	testutil.Require(t, found && digest.FromBytes(content) == desc.Digest && int64(len(content)) == desc.Size,
		"no blob for %+v", desc)
	return content
}

func TestProgramIsExecutable(t *testing.T) {
	img, err := newSandboxImage("amd64")
	testutil.Must(t, err)
	h, err := tar.NewReader(bytes.NewReader(img.layer)).Next()
	testutil.Must(t, err)
	testutil.Assert(t, h.Name == "pause" && h.Mode == 0o755,
		"the layer has %s with mode %o, want an executable pause", h.Name, h.Mode)
}

// Other settings of an image's config (labels, environment, volumes, health check) would leak into every pod.
func TestConfigHoldsNothingThatLeaks(t *testing.T) {
	img, err := newSandboxImage("amd64")
	testutil.Must(t, err)
	got := string(decode[map[string]json.RawMessage](t, img.config)["config"])
	want := `{"User":"65535:65535","Entrypoint":["/pause"],"WorkingDir":"/","StopSignal":"SIGTERM"}`
	testutil.Assert(t, got == want, "the config is %s, want %s", got, want)
}

func TestReferenceNamesNoRealRegistry(t *testing.T) {
	named, err := reference.ParseNormalizedNamed(Reference)
	testutil.Must(t, err)
	testutil.Assert(t, named.String() == Reference && reference.Domain(named) == "criadapter.invalid",
		"%s is short for %s", Reference, named)
	tagged, ok := named.(reference.Tagged)
	testutil.Assert(t, ok && tagged.Tag() == referenceTag, "%s does not have the tag %s", Reference, referenceTag)
}
