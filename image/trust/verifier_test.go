package trust

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/opencontainers/go-digest"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/internal/testutil"
)

// wantRefusal demands a refusal whose reason contains a text.
func wantRefusal(t *testing.T, err error, reason string) {
	t.Helper()
	testutil.Require(t, errors.Is(err, crierrors.ErrSignatureValidationFailed), "got %v, want a refusal", err)
	testutil.Assert(t, strings.Contains(err.Error(), reason), "refusal %q, want it to contain %q", err, reason)
	testutil.Assert(t, !strings.Contains(err.Error(), "\n"), "refusal %q has several lines", err)
}

func TestSignedImageIsPulledByItsDigest(t *testing.T) {
	for name, sign := range map[string]func(s *site, image digest.Digest){
		"simple signing": func(s *site, image digest.Digest) { s.attach("prod/app", image, s.key.simple(image)) },
		"bundle": func(s *site, image digest.Digest) {
			s.refer("prod/app", image, s.key.bundle(signPredicate, image))
		},
		"several signatures, one by the key": func(s *site, image digest.Digest) {
			s.attach("prod/app", image, newSigner(s.t).simple(image), s.key.simple(image))
		},
		"a signature by the key after a bundle by another": func(s *site, image digest.Digest) {
			s.refer("prod/app", image, newSigner(s.t).bundle(signPredicate, image))
			s.refer("prod/app", image, s.key.bundle(signPredicate, image))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			image := s.push("prod/app:1")
			sign(s, image)
			for _, asked := range []string{"prod/app:1", "prod/app@" + image.String()} {
				got, err := s.pull(asked)
				testutil.Must(t, err)
				testutil.Equal(t, got.String(), s.host+"/prod/app@"+image.String(), "the pulled name of %s", asked)
			}
			s.denied.Store(true)
			testutil.Must(t, s.Allow(t.Context(), s.foreign("", "prod/app:1", "prod/app@"+image.String())))
		})
	}
}

// TestOtherReferrers adds referrers that are no signatures, or that the registry cannot serve. With them a signed image
// is still allowed, and an unsigned image is still refused.
func TestOtherReferrers(t *testing.T) {
	for name, test := range map[string]struct {
		refer func(s *site, image digest.Digest)
		// unread says that the referrer may be a signature. A pull then fails with the registry's error, because the
		// image is not proven to be unsigned.
		unread bool
	}{
		"an index": {func(s *site, image digest.Digest) {
			subject, err := remote.Head(s.repository("prod/app").Digest(image.String()))
			testutil.Must(s.t, err)
			index := mutate.Subject(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), *subject).(v1.ImageIndex)
			hash, err := index.Digest()
			testutil.Must(s.t, err)
			testutil.Must(s.t, remote.WriteIndex(s.repository("prod/app").Digest(hash.String()), index))
		}, false},
		"an index instead of the tag of signatures": {func(s *site, image digest.Digest) {
			tag := s.repository("prod/app").Tag("sha256-" + image.Encoded() + ".sig")
			testutil.Must(s.t, remote.WriteIndex(tag, empty.Index))
		}, false},
		"a manifest that is gone": {func(s *site, image digest.Digest) {
			referrer := s.refer("prod/app", image, s.key.bundle(signPredicate, image))
			s.missing.Store("/manifests/" + referrer.String())
		}, false},
		"a bundle that is gone": {func(s *site, image digest.Digest) {
			bundle := s.key.bundle(signPredicate, image)
			s.refer("prod/app", image, bundle)
			s.missing.Store("/blobs/" + digest.FromBytes(bundle).String())
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			image := s.push("prod/app:1")
			test.refer(s, image)
			_, err := s.pull("prod/app:1")
			testutil.Assert(t, err != nil && errors.Is(err, crierrors.ErrSignatureValidationFailed) != test.unread,
				"without a signature: %v", err)
			foreign := s.foreign("", "prod/app@"+image.String())
			testutil.Assert(t, s.Allow(t.Context(), foreign) != nil, "a container without a signature")
			s.refer("prod/app", image, s.key.bundle(signPredicate, image))
			testutil.Must(t, s.Allow(t.Context(), foreign), "a container with a signature")
			_, err = s.pull("prod/app:1")
			testutil.Must(t, err, "with a signature")
		})
	}
}

func TestKindsOfKeys(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	testutil.Must(t, err)
	rivest, err := rsa.GenerateKey(rand.Reader, 2048)
	testutil.Must(t, err)
	for name, key := range map[string]signer{"Ed25519": signerOf(t, edwards), "RSA": signerOf(t, rivest)} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.key = key
			s.write("prod.pub", key.public)
			image := s.signed("prod/app", "1")
			got, err := s.pull("prod/app:1")
			testutil.Must(t, err)
			testutil.Equal(t, got.String(), s.host+"/prod/app@"+image.String(), "the pulled name")
		})
	}
}

// TestCosignsSignatures verifies files of cosign 3.1.3. `cosign sign --new-bundle-format=false` wrote signature and
// payload.json, and `cosign sign` wrote bundle.json. Both had `--tlog-upload=false` and the key pair of cosign.pub.
func TestCosignsSignatures(t *testing.T) {
	const image = digest.Digest("sha256:36474c67861f8befdb79976aac62ebfe055509c48f485bc80d156294a54dc861")
	file := func(name string) []byte { return []byte(testutil.ReadFile(t, filepath.Join("testdata/cosign", name))) }
	sig, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(file("signature"))))
	testutil.Must(t, err)
	key, err := filepath.Abs("testdata/cosign/cosign.pub")
	testutil.Must(t, err)
	keys, err := rule{Keys: []string{key}}.verifiers()
	testutil.Must(t, err)
	for name, e := range map[string]evidence{
		"simple signing": {Payload: file("payload.json"), Signature: sig},
		"bundle":         {Bundle: file("bundle.json")},
	} {
		testutil.Must(t, e.verify(image, keys), name)
		other := digest.FromString("another image")
		testutil.Assert(t, e.verify(other, keys) != nil, "%s: the signature is valid for another image, too", name)
	}
}

// TestAttacksOnPulls offers an image without a valid signature, as a bad registry might do, or an attacker who can push
// to the registry.
func TestAttacksOnPulls(t *testing.T) {
	for name, test := range map[string]struct {
		attack func(s *site, image digest.Digest)
		reason string
	}{
		"no signature": {func(*site, digest.Digest) {}, "has no signature"},
		"signature by another key": {func(s *site, image digest.Digest) {
			s.attach("prod/app", image, newSigner(s.t).simple(image))
		}, "not made by a key"},
		"bundle by another key": {func(s *site, image digest.Digest) {
			s.refer("prod/app", image, newSigner(s.t).bundle(signPredicate, image))
		}, "not made by a key"},
		"signature of another image replayed": {func(s *site, image digest.Digest) {
			s.attach("prod/app", image, s.key.simple(digest.FromString("good")))
		}, "signature of another image"},
		"bundle of another image replayed": {func(s *site, image digest.Digest) {
			s.refer("prod/app", image, s.key.bundle(signPredicate, digest.FromString("good")))
		}, "signature of other images"},
		"payload changed under its signature": {func(s *site, image digest.Digest) {
			forged := s.key.simple(digest.FromString("good"))
			forged.Payload = s.key.simple(image).Payload
			s.attach("prod/app", image, forged)
		}, "not made by a key"},
		"payload of another type": {func(s *site, image digest.Digest) {
			s.attach("prod/app", image, s.key.simpleOfType("a note", image))
		}, `type "a note"`},
		"payload that is not JSON": {func(s *site, image digest.Digest) {
			s.attach("prod/app", image, evidence{Payload: []byte("{"), Signature: s.key.sign([]byte("{"))})
		}, "not simple signing"},
		"attestation in place of a signature": {func(s *site, image digest.Digest) {
			s.refer("prod/app", image, s.key.bundle("https://slsa.dev/provenance/v1", image))
		}, "it states"},
		"envelope of another kind": {func(s *site, image digest.Digest) {
			s.refer("prod/app", image, s.key.envelope("text/plain", []byte(image)))
		}, `type "text/plain"`},
		"envelope with another statement": {func(s *site, image digest.Digest) {
			good := string(s.key.bundle(signPredicate, digest.FromString("good")))
			bad := string(newSigner(s.t).bundle(signPredicate, image))
			payload := func(bundle string) string {
				_, rest, _ := strings.Cut(bundle, `"payload":"`)
				text, _, _ := strings.Cut(rest, `"`)
				return text
			}
			s.refer("prod/app", image, []byte(strings.Replace(good, payload(good), payload(bad), 1)))
		}, "not made by a key"},
		"bundle that is not JSON": {func(s *site, image digest.Digest) {
			s.refer("prod/app", image, []byte("{"))
		}, "not a bundle"},
		"bundle without an envelope": {func(s *site, image digest.Digest) {
			s.refer("prod/app", image, []byte("{}"))
		}, "no DSSE envelope"},
		"signature in another repository": {func(s *site, image digest.Digest) {
			s.push("prod/other:1")
			s.attach("prod/other", image, s.key.simple(image))
		}, "has no signature"},
		"key removed": {func(s *site, image digest.Digest) {
			s.attach("prod/app", image, s.key.simple(image))
			testutil.Must(s.t, os.Remove(filepath.Join(s.dir, "prod.pub")))
		}, "no such file"},
		"policy removed": {func(s *site, image digest.Digest) {
			s.attach("prod/app", image, s.key.simple(image))
			testutil.Must(s.t, os.Remove(s.policy))
		}, "no such file"},
		"policy that is not valid": {func(s *site, image digest.Digest) {
			s.attach("prod/app", image, s.key.simple(image))
			s.write("image-policy.yaml", "default: accept\nrepos: []\n")
		}, "repos"},
		"repository without a rule": {func(s *site, _ digest.Digest) {
			s.writePolicy(s.host+"/elsewhere", "prod.pub")
		}, "the default in"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			image := s.push("prod/app:1")
			test.attack(s, image)
			_, err := s.pull("prod/app:1")
			wantRefusal(t, err, test.reason)
			foreign := s.foreign(s.host+"/prod/app:1", "prod/app:1", "prod/app@"+image.String())
			wantRefusal(t, s.Allow(t.Context(), foreign), test.reason)
		})
	}
}

func TestRegistryThatDeniesIsNotARefusal(t *testing.T) {
	s := newSite(t)
	s.signed("prod/app", "1")
	s.denied.Store(true)
	_, err := s.pull("prod/app:1")
	testutil.Assert(t, err != nil && !errors.Is(err, crierrors.ErrSignatureValidationFailed), "got %v", err)
}

func TestAcceptedRepositoryIsPulledByTag(t *testing.T) {
	s := newSite(t)
	s.denied.Store(true)
	got, err := s.pull("free/app:1")
	testutil.Must(t, err)
	testutil.Equal(t, got.String(), s.host+"/free/app:1", "the pulled name")
	testutil.Must(t, s.Allow(t.Context(), s.foreign("", "free/app:1")))
}

func TestNilVerifierAcceptsAll(t *testing.T) {
	s := newSite(t)
	s.Verifier = nil
	got, err := s.pull("other/app:1")
	testutil.Must(t, err)
	testutil.Equal(t, got.String(), s.host+"/other/app:1", "the pulled name")
	testutil.Must(t, s.Allow(t.Context(), Image{}))
	s.Keep(t.Context(), nil)
}

// TestMovedTag moves a tag between a signed and an unsigned image while it is resolved: a resolved digest is always the
// signed one.
func TestMovedTag(t *testing.T) {
	s := newSite(t)
	good, err := random.Image(16, 1)
	testutil.Must(t, err)
	bad, err := random.Image(16, 1)
	testutil.Must(t, err)
	s.pushAs(bad, "prod/app:1")
	s.pushAs(good, "prod/app:1")
	s.attach("prod/app", digestOf(t, good), s.key.simple(digestOf(t, good)))
	stop := make(chan struct{})
	var mover sync.WaitGroup
	mover.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				s.pushAs([]v1.Image{good, bad}[i%2], "prod/app:1")
			}
		}
	})
	resolved, refusals := 0, 0
	for range 1000 {
		got, err := s.pull("prod/app:1")
		if err != nil {
			wantRefusal(t, err, "has no signature")
			refusals++
			continue
		}
		resolved++
		testutil.Equal(t, got.(reference.Canonical).Digest(), digestOf(t, good), "the digest that is pulled")
	}
	close(stop)
	mover.Wait()
	t.Logf("%d resolved, %d refused", resolved, refusals)
	testutil.Assert(t, resolved > 0 && refusals > 0, "%d resolved, %d refused: the tag did not move", resolved,
		refusals)
}

// TestImagesThatCameAnotherWay checks images that docker pull, tag, load or build brought to the node.
func TestImagesThatCameAnotherWay(t *testing.T) {
	s := newSite(t)
	good := "prod/app@" + s.signed("prod/app", "1").String()
	bad := "prod/app@" + s.push("prod/app:2").String()
	for name, test := range map[string]struct {
		image  Image
		reason string // empty for an image that is allowed
	}{
		"docker pull of a signed image":       {s.foreign(s.host+"/prod/app:1", "prod/app:1", good), ""},
		"docker pull of an unsigned image":    {s.foreign(s.host+"/prod/app:2", "prod/app:2", bad), "has no signature"},
		"asked for by id, signed":             {s.foreign("", "prod/app:1", good), ""},
		"asked for by id, unsigned":           {s.foreign("", "prod/app:2", bad), "has no signature"},
		"docker tag of an image without name": {s.foreign(s.host+"/prod/app:1", "prod/app:1"), "has no digest"},
		"docker build":                        {s.foreign(""), "the default"},
		"an unsigned image with an accepted name, asked for by id": {
			s.foreign("", "free/app:1", "prod/app:2", bad), "has no signature"},
		"an unsigned image with an accepted name, asked for by the other": {
			s.foreign(s.host+"/prod/app:2", "free/app:1", "prod/app:2", bad), "has no signature"},
		"asked for by the accepted name": {s.foreign(s.host+"/free/app:1", "free/app:1", "prod/app:2", bad), ""},
		"asked for by a name that the image does not have": {
			s.foreign(s.host+"/free/other:1", "prod/app:2", bad), "has no signature"},
		"a signed image with a rejected name": {
			s.foreign("", "prod/app:1", good, "other/app:1"), "rejected"},
		"two digests, one is signed": {s.foreign("", bad, good), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Allow(t.Context(), test.image)
			if test.reason == "" {
				testutil.Must(t, err)
				return
			}
			wantRefusal(t, err, test.reason)
		})
	}
}

func TestKeptSignaturesAreVerifiedAgain(t *testing.T) {
	s := newSite(t)
	image := s.signed("prod/app", "1")
	foreign := s.foreign("", "prod/app@"+image.String())
	_, err := s.pull("prod/app:1")
	testutil.Must(t, err)
	s.denied.Store(true)
	testutil.Must(t, s.Allow(t.Context(), foreign))

	file := s.kept.path(image)
	kept := testutil.ReadFile(t, file)
	for name, text := range map[string]string{
		"of another image": fmt.Sprintf(`[{"payload":%q,"signature":%q}]`, "e30=", "e30="), "broken": "{", "none": "[]",
	} {
		testutil.WriteFile(t, file, text)
		wantRefusal(t, s.Allow(t.Context(), foreign), "no signature of "+s.host+"/prod/app")
		t.Log(name, "refused")
	}
	testutil.WriteFile(t, file, kept)
	s.write("prod.pub", newSigner(t).public)
	wantRefusal(t, s.Allow(t.Context(), foreign), "403")

}

func TestSignaturesOfGoneImagesAreDropped(t *testing.T) {
	s := newSite(t)
	s.Keep(t.Context(), nil) // there is no directory yet
	image := s.signed("prod/app", "1")
	_, err := s.pull("prod/app:1")
	testutil.Must(t, err)
	file := s.kept.path(image)
	s.Keep(t.Context(), nil)
	testutil.Exists(t, file, "signatures of an image that may still arrive")
	longAgo := time.Now().Add(-2 * settled)
	testutil.Must(t, os.Chtimes(file, longAgo, longAgo))
	s.Keep(t.Context(), []string{"other/app:1", s.host + "/prod/app@" + image.String()})
	testutil.Exists(t, file, "signatures of an image that is present")
	s.Keep(t.Context(), []string{"other/app:1"})
	testutil.Gone(t, file)
}
