package trust

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/image/registry"
)

const (
	// maxAnswer bounds the size of a registry's answer, in bytes. Manifests and signatures are smaller.
	maxAnswer = 4 << 20
	// maxEvidence bounds the number of signatures of one image that are read.
	maxEvidence = 64
	// signatureKey is the annotation of a layer of simple signing that has its signature, in base64.
	signatureKey = "dev.cosignproject.cosign/signature"
)

// source is the repository of an image, with its signatures.
type source struct{ registry.Repository }

// openSource returns the repository of an image. It sends nothing.
func openSource(ctx context.Context, image reference.Named, auth authn.AuthConfig, certs string) (source, error) {
	repository, err := registry.Open(ctx, image, registry.Options{Auth: auth, Certs: certs, MaxAnswer: maxAnswer})
	return source{repository}, err
}

// digestOf asks the registry for the present digest of a tag.
func (s source) digestOf(tag string) (digest.Digest, error) {
	ref := s.Name.Tag(tag)
	descriptor, err := remote.Head(ref, s.Remote...)
	if err != nil { // some registries answer HEAD without a digest
		var full *remote.Descriptor
		if full, err = remote.Get(ref, s.Remote...); err != nil {
			return "", err
		}
		descriptor = &full.Descriptor
	}
	return digest.Digest(descriptor.Digest.String()), nil
}

// evidence reads the signatures of an image, at most maxEvidence. An error says that some could not be read. The others
// are returned even then, because one valid signature is enough.
func (s source) evidence(image digest.Digest) ([]evidence, error) {
	tagged, taggedErr := s.tagged(image)
	referring, referringErr := s.referring(image)
	all := append(tagged, referring...)
	return all[:min(len(all), maxEvidence)], errors.Join(taggedErr, referringErr)
}

// tagged reads signatures in the form of simple signing.
func (s source) tagged(image digest.Digest) (found []evidence, unread error) {
	layers, err := s.layers(s.Name.Tag(image.Algorithm().String() + "-" + image.Encoded() + ".sig"))
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		sig, err := base64.StdEncoding.DecodeString(layer.Annotations[signatureKey])
		if layer.MediaType != simpleSigningLayer || err != nil {
			continue // not a signature
		}
		payload, err := s.blob(layer)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		found = append(found, evidence{Payload: payload, Signature: sig})
	}
	return found, unread
}

// referring reads bundles among the image's first maxEvidence referrers.
func (s source) referring(image digest.Digest) (found []evidence, unread error) {
	index, err := remote.Referrers(s.Name.Digest(image.String()), s.Remote...)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	// Some registries do not list the artifact's type, so the layers' types count.
	for _, descriptor := range manifest.Manifests[:min(len(manifest.Manifests), maxEvidence)] {
		bundles, err := s.bundles(s.Name.Digest(descriptor.Digest.String()))
		found, unread = append(found, bundles...), errors.Join(unread, err)
	}
	return found, unread
}

// bundles reads the bundles of one referrer.
func (s source) bundles(ref name.Reference) (found []evidence, unread error) {
	layers, err := s.layers(ref)
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		if !strings.HasPrefix(string(layer.MediaType), bundlePrefix) {
			continue
		}
		text, err := s.blob(layer)
		if err != nil {
			unread = errors.Join(unread, err)
			continue
		}
		found = append(found, evidence{Bundle: text})
	}
	return found, unread
}

// layers returns the layers of a manifest that has signatures, at most maxEvidence. It returns none for a manifest that
// is gone, because a fallback tag can still list it. It returns none for an index, because a referrer can be anything.
func (s source) layers(ref name.Reference) ([]v1.Descriptor, error) {
	descriptor, err := remote.Get(ref, s.Remote...)
	if notFound(err) || err == nil && descriptor.MediaType.IsIndex() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	image, err := descriptor.Image()
	if err != nil {
		return nil, err
	}
	manifest, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	return manifest.Layers[:min(len(manifest.Layers), maxEvidence)], nil
}

// blob reads a blob, whose digest the library verifies.
func (s source) blob(descriptor v1.Descriptor) ([]byte, error) {
	layer, err := remote.Layer(s.Name.Digest(descriptor.Digest.String()), s.Remote...)
	if err != nil {
		return nil, err
	}
	content, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}

func notFound(err error) bool {
	var failed *transport.Error
	return errors.As(err, &failed) && failed.StatusCode == http.StatusNotFound
}
