package pause

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// containerdImageName is the annotation for an image's full name. containerd's importer reads it, and so does an engine
// with the containerd image store.
const containerdImageName = "io.containerd.image.name"

// dockerManifest is one image in manifest.json of a "docker save" archive, which the classic image store reads.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Archive returns the sandbox image as an archive for Docker's ImageLoad call ("docker load"), tagged Reference. It is
// an OCI image layout for the containerd image store, and has Docker's manifest.json for the classic one, over the same
// blobs. The same architecture always gives the same bytes, and so the same image id on engines with the same kind of
// store. For an architecture without a built-in image it returns errdefs.ErrNotImplemented.
func Archive(arch string) ([]byte, error) {
	img, err := newSandboxImage(arch)
	if err != nil {
		return nil, err
	}
	named := img.manifestDesc
	named.Annotations = map[string]string{
		containerdImageName:       Reference,
		ocispec.AnnotationRefName: referenceTag,
	}
	files := []tarFile{
		blobFile(img.layerDesc, img.layer),
		blobFile(img.configDesc, img.config),
		blobFile(img.manifestDesc, img.manifest),
	}
	for _, document := range []struct {
		name  string
		value any
	}{
		{ocispec.ImageIndexFile, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2},
			MediaType: ocispec.MediaTypeImageIndex,
			Manifests: []ocispec.Descriptor{named},
		}},
		{"manifest.json", []dockerManifest{{
			Config:   blobPath(img.configDesc.Digest),
			RepoTags: []string{Reference},
			Layers:   []string{blobPath(img.layerDesc.Digest)},
		}}},
		{ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}},
	} {
		content, err := json.Marshal(document.value)
		if err != nil {
			return nil, fmt.Errorf("the sandbox image's %s: %w", document.name, err)
		}
		files = append(files, tarFile{name: document.name, mode: 0o644, content: content})
	}
	archive, err := tarOf(files)
	if err != nil {
		return nil, fmt.Errorf("the sandbox image's archive: %w", err)
	}
	return archive, nil
}

// blobFile returns a blob at its place in the image layout.
func blobFile(desc ocispec.Descriptor, blob []byte) tarFile {
	return tarFile{name: blobPath(desc.Digest), mode: 0o644, content: blob}
}

func blobPath(d digest.Digest) string {
	return ocispec.ImageBlobsDir + "/" + d.Algorithm().String() + "/" + d.Encoded()
}

// tarFile is one regular file of a tar archive, owned by root.
type tarFile struct {
	name    string
	mode    int64
	content []byte
}

// tarOf returns an archive of the files in their order. Nothing in it depends on the time or the machine.
func tarOf(files []tarFile) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Format:   tar.FormatUSTAR,
			Name:     f.name,
			Mode:     f.mode,
			Size:     int64(len(f.content)),
			ModTime:  time.Unix(0, 0),
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
