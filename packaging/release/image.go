package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// container is an image of the release.
type container struct {
	// name is the repository, and the name of the program that the image runs.
	name string
	// programs are all programs of the image.
	programs    []string
	description string
}

func containers() []container {
	return []container{
		{"criadapter", []string{"criadapter", "criadapter-oci"}, "Kubernetes CRI v1 server on top of Docker Engine"},
		{"kubelet-core", []string{"kubelet-core"}, "Kubernetes pods on one machine, without a control plane"},
	}
}

// images writes all images.
func (r release) images(builds []build) error {
	for _, c := range containers() {
		if err := r.image(c, builds); err != nil {
			return err
		}
	}
	return nil
}

// image writes the image of each build as an archive for `docker load`, and all images as one OCI layout with an index.
func (r release) image(c container, builds []build) error {
	var index v1.ImageIndex = empty.Index
	for _, b := range builds {
		image, err := r.imageOf(c, b)
		if err != nil {
			return err
		}
		tag, err := name.NewTag(c.name + ":" + imageTag(r.version))
		if err != nil {
			return err
		}
		archive := filepath.Join(r.out, c.name+"_"+r.version+"_linux_"+b.architecture+".image.tar")
		if err := tarball.WriteToFile(archive, tag, image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.architecture}},
		})
	}
	dir, err := os.MkdirTemp(r.out, ".oci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	return r.packLayout(c, dir)
}

// packLayout packs an OCI layout into one archive.
func (r release) packLayout(c container, dir string) error {
	files, err := readTree(dir)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	if err := writeTar(&packed, "", files, r.time); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, c.name+"_"+r.version+".oci.tar"), packed.Bytes(), 0o644)
}

// imageOf makes an image for one architecture. The image of criadapter is like the Dockerfile's, with the licences of
// all linked modules. It has no CA certificates: they would age with the image, and differ from the engine's.
func (r release) imageOf(c container, b build) (v1.Image, error) {
	files := []file{{path: termsFile, mode: 0o644, content: b.terms}}
	for _, name := range c.programs {
		program, err := os.ReadFile(b.path(name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{path: name, mode: 0o755, content: program})
	}
	var packed bytes.Buffer
	if err := writeTar(&packed, "", files, r.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	}, tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: r.time}
	config.OS, config.Architecture = "linux", b.architecture
	config.Config = v1.Config{
		Entrypoint: []string{"/" + c.name},
		Labels: map[string]string{
			"org.opencontainers.image.title":       c.name,
			"org.opencontainers.image.description": c.description,
			"org.opencontainers.image.source":      homepage,
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     r.name,
		},
	}
	return mutate.ConfigFile(image, config)
}

// imageTag is the tag for a version. A tag cannot have a plus sign.
func imageTag(version string) string {
	return strings.ReplaceAll(version, "+", "-")
}
