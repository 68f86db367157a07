package trust

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	sigstoredsse "github.com/sigstore/sigstore/pkg/signature/dsse"

	"github.com/criadapter/criadapter/internal/testutil"
)

// site is a registry and a node with a policy: images of prod/ need a signature by the site's key, images of free/ do
// not, and all others are rejected.
type site struct {
	*Verifier
	t      *testing.T
	host   string
	dir    string
	key    signer
	policy string
	// denied says that the registry denies all requests, like a registry that demands credentials.
	denied atomic.Bool
	// missing is the end of a path that the registry does not find.
	missing atomic.Value
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), key: newSigner(t)}
	store := ggcr.New(ggcr.WithReferrersSupport(true), ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.denied.Load() {
			http.Error(w, "denied", http.StatusForbidden)
			return
		}
		if end, ok := s.missing.Load().(string); ok && strings.HasSuffix(r.URL.Path, end) {
			http.NotFound(w, r)
			return
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	s.policy = filepath.Join(s.dir, "image-policy.yaml")
	s.write("prod.pub", s.key.public)
	s.writePolicy(s.host+"/prod", "prod.pub")
	s.Verifier = New(Options{Policy: s.policy, Kept: filepath.Join(s.dir, "kept")})
	return s
}

func (s *site) write(file, text string) { testutil.WriteFile(s.t, filepath.Join(s.dir, file), text) }

// writePolicy writes a policy by which images below prefix need a signature by the key in a file.
func (s *site) writePolicy(prefix, key string) {
	s.write("image-policy.yaml", "default: reject\nrepositories:\n"+
		"- {prefix: "+s.host+"/free, policy: accept}\n"+
		"- {prefix: "+prefix+", policy: signed, keys: ['"+filepath.Join(s.dir, key)+"']}\n")
}

// ref is a reference in the site's registry.
func (s *site) ref(text string) reference.Named {
	named, err := reference.ParseDockerRef(s.host + "/" + text)
	testutil.Must(s.t, err)
	return named
}

func (s *site) repository(of string) name.Repository {
	repository, err := name.NewRepository(s.host + "/" + of)
	testutil.Must(s.t, err)
	return repository
}

// push pushes a new image under a tag, such as prod/app:1, and returns its digest.
func (s *site) push(text string) digest.Digest {
	s.t.Helper()
	img, err := random.Image(16, 1)
	testutil.Must(s.t, err)
	s.pushAs(img, text)
	return digestOf(s.t, img)
}

func (s *site) pushAs(img v1.Image, text string) {
	s.t.Helper()
	ref, err := name.ParseReference(s.host + "/" + text)
	testutil.Must(s.t, err)
	testutil.Must(s.t, remote.Write(ref, img))
}

func digestOf(t *testing.T, img v1.Image) digest.Digest {
	t.Helper()
	hash, err := img.Digest()
	testutil.Must(t, err)
	return digest.Digest(hash.String())
}

// attach puts simple signatures into an image's tag, as cosign does.
func (s *site) attach(repository string, image digest.Digest, found ...evidence) {
	s.t.Helper()
	img := v1.Image(empty.Image)
	for _, e := range found {
		var err error
		img, err = mutate.Append(img, mutate.Addendum{
			Layer:       static.NewLayer(e.Payload, simpleSigningLayer),
			Annotations: map[string]string{signatureKey: base64.StdEncoding.EncodeToString(e.Signature)},
		})
		testutil.Must(s.t, err)
	}
	ref := s.repository(repository).Tag("sha256-" + image.Encoded() + ".sig")
	testutil.Must(s.t, remote.Write(ref, img))
}

// refer puts a bundle among an image's referrers, as cosign does, and returns the referrer's digest.
func (s *site) refer(repository string, image digest.Digest, bundle []byte) digest.Digest {
	s.t.Helper()
	subject, err := remote.Head(s.repository(repository).Digest(image.String()))
	testutil.Must(s.t, err)
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), mutate.Addendum{
		Layer: static.NewLayer(bundle, bundlePrefix+".v0.3+json"),
	})
	testutil.Must(s.t, err)
	referrer := mutate.Subject(img, *subject).(v1.Image)
	made := digestOf(s.t, referrer)
	testutil.Must(s.t, remote.Write(s.repository(repository).Digest(made.String()), referrer))
	return made
}

// signed pushes an image and signs it.
func (s *site) signed(repository, tag string) digest.Digest {
	s.t.Helper()
	image := s.push(repository + ":" + tag)
	s.attach(repository, image, s.key.simple(image))
	return image
}

// pull resolves without credentials.
func (s *site) pull(text string) (reference.Named, error) {
	return s.Resolve(s.t.Context(), s.ref(text), authn.AuthConfig{})
}

// foreign returns an image on the node that was not pulled through CRI.
func (s *site) foreign(asked string, names ...string) Image {
	image := Image{ID: "sha256:" + strings.Repeat("1", 64), Name: asked}
	for _, name := range names {
		image.Names = append(image.Names, s.host+"/"+name)
	}
	return image
}

// signer signs as cosign does with a key pair.
type signer struct {
	signature.Signer
	t *testing.T
	// public is the public key as PEM.
	public string
}

func newSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	return signerOf(t, key)
}

func signerOf(t *testing.T, key crypto.Signer) signer {
	t.Helper()
	made, err := signature.LoadSigner(key, crypto.SHA256)
	testutil.Must(t, err)
	public, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	testutil.Must(t, err)
	return signer{Signer: made, t: t, public: string(public)}
}

func (s signer) sign(message []byte) []byte {
	sig, err := s.SignMessage(bytes.NewReader(message))
	testutil.Must(s.t, err)
	return sig
}

func (s signer) simple(image digest.Digest) evidence {
	return s.simpleOfType(simpleSigningType, image)
}

func (s signer) simpleOfType(kind string, image digest.Digest) evidence {
	payload, err := json.Marshal(map[string]any{"critical": map[string]any{
		"type": kind, "image": map[string]any{"docker-manifest-digest": image},
	}})
	testutil.Must(s.t, err)
	return evidence{Payload: payload, Signature: s.sign(payload)}
}

// bundle returns a bundle with a statement about an image.
func (s signer) bundle(predicate string, image digest.Digest) []byte {
	statement, err := json.Marshal(map[string]any{
		"_type": statementType, "predicateType": predicate,
		"subject": []any{map[string]any{"digest": map[string]string{"sha256": image.Encoded()}}},
	})
	testutil.Must(s.t, err)
	return s.envelope(statementPayload, statement)
}

func (s signer) envelope(kind string, payload []byte) []byte {
	maker, err := dsse.NewEnvelopeSigner(&sigstoredsse.SignerAdapter{SignatureSigner: s.Signer})
	testutil.Must(s.t, err)
	envelope, err := maker.SignPayload(s.t.Context(), kind, payload)
	testutil.Must(s.t, err)
	bundle, err := json.Marshal(map[string]any{
		"mediaType": bundlePrefix + ".v0.3+json", "dsseEnvelope": envelope,
	})
	testutil.Must(s.t, err)
	return bundle
}
