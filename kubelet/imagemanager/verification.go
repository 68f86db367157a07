package imagemanager

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Verification says which present images a pod may use without another pull (imagePullCredentialsVerificationPolicy of
// KubeletConfiguration).
type Verification string

// Verifications. The empty one is NeverVerifyPreloadedImages.
const (
	NeverVerify                  Verification = "NeverVerify"
	NeverVerifyPreloadedImages   Verification = "NeverVerifyPreloadedImages"
	NeverVerifyAllowlistedImages Verification = "NeverVerifyAllowlistedImages"
	AlwaysVerify                 Verification = "AlwaysVerify"
)

// CheckVerification reports whether a policy and its allowlist are valid. An entry of the list is the name of an image
// without tag and digest. With /* at its end, an entry stands for all names below a registry or a part of a repository.
// Short names are Docker Hub's: library/* stands for docker.io/library/*.
func CheckVerification(policy Verification, allowlist []string) error {
	known := []Verification{NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages, AlwaysVerify}
	if policy != "" && !slices.Contains(known, policy) {
		return fmt.Errorf("%q is not one of %v", policy, known)
	}
	if len(allowlist) > 0 && policy != NeverVerifyAllowlistedImages {
		return fmt.Errorf("a list of images needs the policy %s", NeverVerifyAllowlistedImages)
	}
	for _, entry := range allowlist {
		if _, err := prefixOf(entry); err == nil {
			continue
		}
		if named, err := reference.ParseNormalizedNamed(entry); err != nil || !reference.IsNameOnly(named) {
			return fmt.Errorf("%q is neither an image name without tag and digest nor a prefix that ends in /*", entry)
		}
	}
	return nil
}

// prefixOf returns the prefix of the full names that an entry with /* at its end matches. Any other entry is an error.
func prefixOf(entry string) (string, error) {
	prefix, wild := strings.CutSuffix(entry, "/*")
	if !wild {
		return "", fmt.Errorf("%q does not end with /*", entry)
	}
	// below has two elements: with one element, docker.io/x would become docker.io/library/x.
	const below = "x/x"
	named, err := reference.ParseNormalizedNamed(prefix + "/" + below)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(named.Name(), below), nil
}

// allowed reports whether the pod may use a present image without another pull (KEP-2535). Either the policy allows it,
// or an earlier pull used the pod's credentials, the node's credentials, or none.
func (p *Puller) allowed(r Request, image *runtimeapi.Image) bool {
	access := p.opts.Access
	if access == nil || p.opts.Verification == NeverVerify {
		return true
	}
	if access.preloaded(r.Image, image.GetId()) && !p.verifiesPreloaded(r.Image) {
		return true
	}
	if access.allows(r.Image, image.GetId(), nil) {
		return true
	}
	credentials, err := p.credentials(r) // the pull that follows reports the error
	return err == nil && access.allows(r.Image, image.GetId(), credentials)
}

func (p *Puller) verifiesPreloaded(name string) bool {
	switch p.opts.Verification {
	case AlwaysVerify:
		return true
	case NeverVerifyAllowlistedImages:
		repository := repositoryOf(name)
		return !slices.ContainsFunc(p.opts.Allowlist, func(entry string) bool {
			if prefix, err := prefixOf(entry); err == nil {
				return strings.HasPrefix(repository, prefix)
			}
			return repository == repositoryOf(entry)
		})
	}
	return false
}
