package trust

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/log"
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore/pkg/signature"
	crierrors "k8s.io/cri-api/pkg/errors"
)

// patience bounds the requests of one decision to a registry.
const patience = time.Minute

// Options are the options of New. Policy and Kept are required.
type Options struct {
	// Policy is the path of the policy file.
	Policy string
	// Kept is the directory of the signatures of pulled images. It need not exist.
	Kept string
	// Certs has a directory with certificates for each registry, as /etc/docker/certs.d. It need not exist.
	Certs string
}

// Verifier decides by a policy file. All methods are safe for concurrent use. A nil Verifier accepts all images.
//
// The error of a refusal wraps ErrSignatureValidationFailed of the CRI API, which the kubelet shows as the container's
// waiting reason.
type Verifier struct {
	policy string
	certs  string
	kept   kept
}

// New returns a verifier. It reads nothing.
func New(opts Options) *Verifier {
	return &Verifier{policy: opts.Policy, certs: opts.Certs, kept: kept{opts.Kept}}
}

// Resolve decides on the pull of an image, which has a tag or a digest. For an image that needs a signature it returns
// the name by the verified digest. The caller must pull that name instead of the tag. For other images it returns ref.
// If the registry does not answer, Resolve fails with the registry's error.
func (v *Verifier) Resolve(ctx context.Context, ref reference.Named, auth authn.AuthConfig) (reference.Named, error) {
	if v == nil {
		return ref, nil
	}
	rule, keys, err := v.rule(ref.Name())
	if err != nil {
		return nil, refused(ref.String(), err)
	}
	if rule.Policy != signed {
		return ref, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from, err := openSource(ctx, ref, auth, v.certs)
	if err != nil {
		return nil, fmt.Errorf("verify image %s: %w", ref, err)
	}
	image, err := digestFrom(from, ref)
	if err != nil {
		return nil, fmt.Errorf("look up image %s to verify it: %w", ref, err)
	}
	found, unread := from.evidence(image)
	if err := judge(image, found, keys); err != nil {
		if unread != nil { // an unread signature may be valid
			return nil, fmt.Errorf("read signatures of image %s: %w", ref, unread)
		}
		return nil, refused(ref.String(), v.withRule(rule, err))
	}
	if err := v.kept.save(image, found); err != nil {
		return nil, fmt.Errorf("keep signatures of image %s: %w", ref, err)
	}
	pinned, err := reference.WithDigest(reference.TrimNamed(ref), image)
	if err != nil {
		return nil, fmt.Errorf("name image %s by its digest: %w", ref, err)
	}
	return pinned, nil
}

func digestFrom(from source, ref reference.Named) (digest.Digest, error) {
	switch ref := ref.(type) {
	case reference.Digested:
		return ref.Digest(), nil
	case reference.Tagged:
		return from.digestOf(ref.Tag())
	}
	return "", fmt.Errorf("image %s has neither tag nor digest", ref)
}

// Image describes an image of the engine.
type Image struct {
	ID string
	// Name is the name by which a client asks for the image. It may be the id, or empty.
	Name string
	// Names are the image's tags and digests at the engine, with their repositories.
	Names []string
}

// Allow decides on a container of an image that is on the node. If the image has a name in the repository of Name, the
// repository's rule decides. Otherwise the rules of all the image's repositories must allow it. The default decides on
// an image without a repository.
//
// If the rule needs a signature, one of the image's digests in the repository must have it. Without a kept signature,
// Allow asks the registry.
func (v *Verifier) Allow(ctx context.Context, image Image) error {
	if v == nil {
		return nil
	}
	digests := digestsByRepository(image.Names)
	if asked, err := reference.ParseNormalizedNamed(image.Name); err == nil {
		if only, ok := digests[asked.Name()]; ok {
			digests = map[string][]reference.Canonical{asked.Name(): only}
		}
	}
	if len(digests) == 0 {
		digests[""] = nil
	}
	for repository, known := range digests {
		if err := v.allow(ctx, repository, known); err != nil {
			return refused(describe(image), err)
		}
	}
	return nil
}

func describe(image Image) string {
	if image.Name == "" || image.Name == image.ID {
		return image.ID
	}
	return fmt.Sprintf("%s (%s)", image.Name, image.ID)
}

// digestsByRepository groups an image's digests by repository. Repositories with tags alone are included.
func digestsByRepository(names []string) map[string][]reference.Canonical {
	sorted := map[string][]reference.Canonical{}
	for _, text := range names {
		named, err := reference.ParseNormalizedNamed(text)
		if err != nil {
			continue
		}
		known := sorted[named.Name()]
		if canonical, ok := named.(reference.Canonical); ok {
			known = append(known, canonical)
		}
		sorted[named.Name()] = known
	}
	return sorted
}

// allow decides on an image that has these digests in a repository.
func (v *Verifier) allow(ctx context.Context, repository string, known []reference.Canonical) error {
	rule, keys, err := v.rule(repository)
	if err != nil || rule.Policy != signed {
		return err
	}
	var errs []error
	for _, image := range known {
		err := v.allowDigest(ctx, image, keys)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if len(known) == 0 {
		errs = append(errs,
			fmt.Errorf("it has no digest of repository %s: docker build and docker load give it none", repository))
	}
	return v.withRule(rule, joined(errs))
}

// allowDigest decides on a digest by kept signatures, and then by those in the registry.
func (v *Verifier) allowDigest(ctx context.Context, image reference.Canonical, keys []signature.Verifier) error {
	found, err := v.kept.load(image.Digest())
	if err != nil {
		log.G(ctx).WithError(err).Warn("cannot read kept signatures, asking the registry")
	}
	if judge(image.Digest(), found, keys) == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	from, err := openSource(ctx, image, authn.AuthConfig{}, v.certs)
	if err != nil {
		return err
	}
	found, unread := from.evidence(image.Digest())
	if err := judge(image.Digest(), found, keys); err != nil {
		if unread != nil { // an unread signature may be valid
			return fmt.Errorf("no signature of %s is kept on this node, pull the image through CRI; "+
				"asking its registry: %w", image, unread)
		}
		return err
	}
	if err := v.kept.save(image.Digest(), found); err != nil {
		log.G(ctx).WithError(err).Warn("cannot keep signatures, the next container asks the registry again")
	}
	return nil
}

// Keep drops the kept signatures of all images but these, which are given by their names. It spares signatures that are
// younger than an hour. Do not call Keep between Resolve and the end of its pull: Resolve keeps the signatures before
// the image is present.
func (v *Verifier) Keep(ctx context.Context, names []string) {
	if v == nil {
		return
	}
	images := map[digest.Digest]bool{}
	for _, known := range digestsByRepository(names) {
		for _, image := range known {
			images[image.Digest()] = true
		}
	}
	if err := v.kept.sweep(images); err != nil {
		log.G(ctx).WithError(err).Warn("cannot remove kept signatures")
	}
}

// rule returns the rule of a repository and its keys. A rejection is an error.
func (v *Verifier) rule(repository string) (rule, []signature.Verifier, error) {
	p, err := readPolicy(v.policy)
	if err != nil {
		return rule{}, nil, fmt.Errorf("image policy: %w", err)
	}
	r := p.ruleOf(repository)
	if r.Policy == reject {
		return r, nil, v.withRule(r, errors.New("rejected"))
	}
	keys, err := r.verifiers()
	if err != nil {
		return r, nil, fmt.Errorf("image policy %s: %w", v.policy, err)
	}
	return r, keys, nil
}

// withRule adds the rule to the error of its decision.
func (v *Verifier) withRule(r rule, err error) error {
	return fmt.Errorf("%s in %s: %w", r, v.policy, err)
}

// judge returns nil if one of the signatures is valid. Otherwise the error has the fault of each signature.
func judge(image digest.Digest, found []evidence, keys []signature.Verifier) error {
	if len(found) == 0 {
		return fmt.Errorf("%s has no signature", image)
	}
	var errs []error
	for i, e := range found {
		err := e.verify(image, keys)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("signature %d of %s: %w", i+1, image, err))
	}
	return joined(errs)
}

// joined returns the errors as one line, because the kubelet shows it in a table. Registries add lines of their own.
func joined(errs []error) error {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = strings.Join(strings.Fields(err.Error()), " ")
	}
	return errors.New(strings.Join(texts, "; "))
}

// refused makes the error of a refusal.
func refused(image string, err error) error {
	return fmt.Errorf("%w: image %s: %w", crierrors.ErrSignatureValidationFailed, image, err)
}
