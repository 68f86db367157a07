package image_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/image/trust"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// policyRig is a rig whose registry's images need a signature by a key.
type policyRig struct {
	*rig
	key signature.Signer
}

func newPolicyRig(t *testing.T) policyRig {
	t.Helper()
	env := rigenv.Require(t)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testutil.Must(t, err)
	key, err := signature.LoadSigner(private, crypto.SHA256)
	testutil.Must(t, err)
	public, err := cryptoutils.MarshalPublicKeyToPEM(private.Public())
	testutil.Must(t, err)
	dir := t.TempDir()
	keyFile, policy := filepath.Join(dir, "key.pub"), filepath.Join(dir, "image-policy.yaml")
	testutil.WriteFile(t, keyFile, string(public))
	testutil.WriteFile(t, policy, fmt.Sprintf(
		"default: reject\nrepositories:\n- prefix: %q\n  policy: signed\n  keys: [%q]\n", env.Registry, keyFile))
	verifier := trust.New(trust.Options{Policy: policy, Kept: filepath.Join(dir, "kept")})
	return policyRig{rig: newRig(t, image.Options{Trust: verifier}), key: key}
}

// sign puts an image's signature beside it, as cosign does.
func (r policyRig) sign(t *testing.T, img v1.Image, repository string) {
	t.Helper()
	digest, err := img.Digest()
	testutil.Must(t, err)
	payload := fmt.Appendf(nil,
		`{"critical":{"type":"cosign container image signature","image":{"docker-manifest-digest":%q}}}`, digest)
	sig, err := r.key.SignMessage(bytes.NewReader(payload))
	testutil.Must(t, err)
	signed, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:       static.NewLayer(payload, "application/vnd.dev.cosign.simplesigning.v1+json"),
		Annotations: map[string]string{"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(sig)},
	})
	testutil.Must(t, err)
	to, err := ggcr.NewRepository(repository)
	testutil.Must(t, err)
	testutil.Must(t, remote.Write(to.Tag("sha256-"+digest.Hex+".sig"), signed))
}

func (r policyRig) wantRefusal(t *testing.T, err error) {
	t.Helper()
	testutil.Assert(t, errors.Is(err, crierrors.ErrSignatureValidationFailed), "got %v, want a refusal", err)
}

// TestRigPolicyPullsVerifiedDigest moves a tag from a signed to an unsigned image: the node keeps the signed one.
func TestRigPolicyPullsVerifiedDigest(t *testing.T) {
	r := newPolicyRig(t)
	local := name(t)
	repository := r.env.Registry + "/" + local
	good, bad := fresh(t, 64, v1.Config{}), fresh(t, 64, v1.Config{})
	r.push(t, good, local+":1")
	r.sign(t, good, repository)
	id := r.pull(t, repository+":1")
	digest, err := good.Digest()
	testutil.Must(t, err)
	present := r.status(t, repository+":1")
	testutil.Require(t, present.GetId() == id, "tag names %v, want %s", present, id)
	testutil.Equal(t, strings.Join(present.GetRepoDigests(), " "), repository+"@"+digest.String(), "digests")
	testutil.Must(t, r.Allow(t.Context(), id, repository+":1"))

	r.push(t, bad, local+":1")
	_, err = r.Pull(t.Context(), spec(repository+":1"), nil)
	r.wantRefusal(t, err)
	testutil.Equal(t, r.status(t, repository+":1").GetId(), id, "image of the tag after the refusal")

	// A docker pull moves the tag. No container may be created from the image that docker pull brought.
	testutil.Must(t, r.engine.PullImage(t.Context(), repository+":1", docker.PullOptions{}))
	inspect, err := r.engine.InspectImage(t.Context(), repository+":1")
	testutil.Must(t, err)
	testutil.Require(t, inspect.ID != id, "docker pull did not move the tag")
	r.wantRefusal(t, r.Allow(t.Context(), inspect.ID, repository+":1"))
	testutil.Must(t, r.Allow(t.Context(), id, repository+":1"))
	testutil.Must(t, r.Remove(t.Context(), spec(id)))
	testutil.Must(t, r.Remove(t.Context(), spec(inspect.ID)))
}

// TestRigPolicyJudgesForeignImages checks images that docker pull brought, or docker tag named.
func TestRigPolicyJudgesForeignImages(t *testing.T) {
	r := newPolicyRig(t)
	local := name(t)
	repository := r.env.Registry + "/" + local
	signed, unsigned := fresh(t, 64, v1.Config{}), fresh(t, 64, v1.Config{})
	r.push(t, signed, local+":signed")
	r.sign(t, signed, repository)
	r.push(t, unsigned, local+":unsigned")
	for tag, allowed := range map[string]bool{"signed": true, "unsigned": false} {
		ref := repository + ":" + tag
		testutil.Must(t, r.engine.PullImage(t.Context(), ref, docker.PullOptions{}))
		inspect, err := r.engine.InspectImage(t.Context(), ref)
		testutil.Must(t, err)
		err = r.Allow(t.Context(), inspect.ID, ref)
		testutil.Assert(t, (err == nil) == allowed, "docker pull of %s: %v", ref, err)

		// The image gets another name, which no rule accepts. The name in the request decides.
		testutil.Must(t, r.engine.TagImage(t.Context(), ref, "local/"+tag+":1"))
		err = r.Allow(t.Context(), inspect.ID, ref)
		testutil.Assert(t, (err == nil) == allowed, "docker tag of %s: %v", ref, err)
		_, err = r.Resolve(t.Context(), "local/"+tag+":1")
		testutil.Must(t, err)
		r.wantRefusal(t, r.Allow(t.Context(), inspect.ID, "local/"+tag+":1"))
		testutil.Must(t, r.Remove(t.Context(), spec(inspect.ID)))
	}
}
