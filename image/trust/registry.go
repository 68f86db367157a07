package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"
)

const (
	// maxAnswer bounds the size of a registry's answer, in bytes. Manifests and signatures are smaller.
	maxAnswer = 4 << 20
	// maxEvidence bounds the number of signatures of one image that are read.
	maxEvidence = 64
	// signatureKey is the annotation of a layer of simple signing that has its signature, in base64.
	signatureKey = "dev.cosignproject.cosign/signature"
)

// registry is the registry of one repository, for one caller.
type registry struct {
	repository name.Repository
	options    []remote.Option
}

// openRegistry returns the registry of an image. It sends nothing.
func openRegistry(ctx context.Context, image reference.Named, auth authn.AuthConfig, certs string) (registry, error) {
	repository, err := name.NewRepository(image.Name(), name.StrictValidation)
	if err != nil {
		return registry{}, err
	}
	secured, err := newTransport(filepath.Join(certs, reference.Domain(image)))
	if err != nil {
		return registry{}, err
	}
	return registry{repository: repository, options: []remote.Option{
		remote.WithContext(ctx), remote.WithAuth(authn.FromConfig(auth)), remote.WithTransport(secured),
	}}, nil
}

// digestOf asks for the digest that a tag has at the moment.
func (r registry) digestOf(tag string) (digest.Digest, error) {
	ref := r.repository.Tag(tag)
	descriptor, err := remote.Head(ref, r.options...)
	if err != nil { // some registries answer HEAD without a digest
		var full *remote.Descriptor
		if full, err = remote.Get(ref, r.options...); err != nil {
			return "", err
		}
		descriptor = &full.Descriptor
	}
	return digest.Digest(descriptor.Digest.String()), nil
}

// evidence reads the signatures of an image, at most maxEvidence.
func (r registry) evidence(image digest.Digest) ([]evidence, error) {
	tagged, err := r.tagged(image)
	if err != nil {
		return nil, err
	}
	referring, err := r.referring(image)
	if err != nil {
		return nil, err
	}
	all := append(tagged, referring...)
	return all[:min(len(all), maxEvidence)], nil
}

// tagged reads signatures in the form of simple signing.
func (r registry) tagged(image digest.Digest) ([]evidence, error) {
	ref := r.repository.Tag(image.Algorithm().String() + "-" + image.Encoded() + ".sig")
	layers, err := r.layers(ref)
	if notFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []evidence
	for _, layer := range layers {
		sig, err := base64.StdEncoding.DecodeString(layer.Annotations[signatureKey])
		if layer.MediaType != simpleSigningLayer || err != nil {
			continue // not a signature
		}
		payload, err := r.blob(layer)
		if err != nil {
			return nil, err
		}
		found = append(found, evidence{Payload: payload, Signature: sig})
	}
	return found, nil
}

// referring reads bundles among the image's first maxEvidence referrers.
func (r registry) referring(image digest.Digest) ([]evidence, error) {
	index, err := remote.Referrers(r.repository.Digest(image.String()), r.options...)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var found []evidence
	// Some registries do not list the artifact's type, so the layers' types count.
	for _, descriptor := range manifest.Manifests[:min(len(manifest.Manifests), maxEvidence)] {
		layers, err := r.layers(r.repository.Digest(descriptor.Digest.String()))
		if err != nil {
			return nil, err
		}
		for _, layer := range layers {
			if !strings.HasPrefix(string(layer.MediaType), bundlePrefix) {
				continue
			}
			text, err := r.blob(layer)
			if err != nil {
				return nil, err
			}
			found = append(found, evidence{Bundle: text})
		}
	}
	return found, nil
}

// layers returns the layers of a manifest that has signatures, at most maxEvidence.
func (r registry) layers(ref name.Reference) ([]v1.Descriptor, error) {
	image, err := remote.Image(ref, r.options...)
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
func (r registry) blob(descriptor v1.Descriptor) ([]byte, error) {
	layer, err := remote.Layer(r.repository.Digest(descriptor.Digest.String()), r.options...)
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

// limited is a transport that bounds answers, and uses HTTP without TLS for loopback addresses alone, as Docker Engine
// does.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	if host := request.URL.Hostname(); request.URL.Scheme != "https" && !loopback(host) {
		return nil, fmt.Errorf("%s: a registry needs HTTPS for verified pulls", host)
	}
	response, err := l.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	return response, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// newTransport returns a transport with the registry's certificates in a directory as Docker Engine reads it: *.crt are
// authorities, NAME.cert with NAME.key are certificates of the client. The directory need not exist.
func newTransport(dir string) (http.RoundTripper, error) {
	config := &tls.Config{}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		switch base, isCert := strings.CutSuffix(path, ".cert"); {
		case isCert:
			pair, err := tls.LoadX509KeyPair(path, base+".key")
			if err != nil {
				return nil, err
			}
			config.Certificates = append(config.Certificates, pair)
		case filepath.Ext(path) == ".crt":
			if err := addAuthority(config, path); err != nil {
				return nil, err
			}
		}
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig = config
	// Each decision has a transport of its own, which must not leave connections behind.
	base.DisableKeepAlives = true
	return limited{base}, nil
}

func addAuthority(config *tls.Config, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if config.RootCAs == nil {
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			return err
		}
	}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s has no certificate as PEM", path)
	}
	return nil
}
