package image

import (
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lookupReference returns the reference in spec if the engine can look it up: an id, an id prefix, or a name with or
// without a tag or a digest. It refuses any other text, because the engine's client puts it into a URL unescaped.
func lookupReference(spec *runtimeapi.ImageSpec) (string, error) {
	ref := spec.GetImage()
	if ref == "" {
		return "", fmt.Errorf("image.image is required: %w", errdefs.ErrInvalidArgument)
	}
	if _, err := reference.ParseAnyReference(ref); err != nil {
		return "", fmt.Errorf("image.image %q is neither an image's name nor its id: %v: %w", ref, err,
			errdefs.ErrInvalidArgument)
	}
	return withoutTagOfDigest(ref), nil
}

// withoutTagOfDigest drops the tag of "name:tag@digest". The digest identifies the image, and the engine records no
// name with both.
func withoutTagOfDigest(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	if _, ok := named.(reference.Digested); !ok {
		return ref
	}
	named, err = reference.ParseDockerRef(ref)
	if err != nil {
		return ref
	}
	return named.String()
}

// pullReference returns the normalised name in spec for a registry. A name without tag and digest gets the tag
// "latest". A name with both keeps only the digest.
func pullReference(spec *runtimeapi.ImageSpec) (reference.Named, error) {
	ref := spec.GetImage()
	if ref == "" {
		return nil, fmt.Errorf("image.image is required: %w", errdefs.ErrInvalidArgument)
	}
	if _, err := digest.Parse(ref); err == nil {
		return nil, fmt.Errorf("image.image %q is an image id, which no registry knows; give a name: %w", ref,
			errdefs.ErrInvalidArgument)
	}
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return nil, fmt.Errorf("image.image %q is not a valid reference: %v: %w", ref, err, errdefs.ErrInvalidArgument)
	}
	return named, nil
}

// sameRepository reports whether two names have one repository, with any tags and digests.
func sameRepository(a, b string) bool {
	na, err := reference.ParseNormalizedNamed(a)
	if err != nil {
		return false
	}
	nb, err := reference.ParseNormalizedNamed(b)
	return err == nil && na.Name() == nb.Name()
}
