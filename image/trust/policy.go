package trust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/image/registry"
	"github.com/criadapter/criadapter/internal/yamldoc"
)

// decision is the value of a rule's policy, or of the default.
type decision string

const (
	accept decision = "accept"
	reject decision = "reject"
	signed decision = "signed"
)

// policy is the content of a policy file.
type policy struct {
	// Default decides on images without a rule: accept or reject.
	Default      decision `json:"default"`
	Repositories []rule   `json:"repositories,omitempty"`
}

// rule decides on the repository Prefix, and on all repositories below it.
type rule struct {
	Prefix string   `json:"prefix"`
	Policy decision `json:"policy"`
	// Keys are the absolute paths of public keys as PEM. A signature by one of them is enough.
	Keys []string `json:"keys,omitempty"`
}

// maxPolicy bounds the size of a policy file, in bytes.
const maxPolicy = 1 << 20

// Check returns the error that each decision by this policy file would have: a missing or invalid file or key.
func Check(path string) error {
	p, err := readPolicy(path)
	if err != nil {
		return err
	}
	for _, r := range p.Repositories {
		if _, err := r.verifiers(); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func readPolicy(path string) (*policy, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := parsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// parsePolicy reads a policy strictly. The prefixes of the returned rules are in their long form, and each occurs once.
func parsePolicy(text []byte) (*policy, error) {
	if len(text) > maxPolicy {
		return nil, fmt.Errorf("the policy has %d bytes, at most %d are read", len(text), maxPolicy)
	}
	text, err := yamldoc.Only(text)
	if err != nil {
		return nil, err
	}
	var p policy
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		return nil, err
	}
	if p.Default != accept && p.Default != reject {
		return nil, fmt.Errorf("default: %q must be %s or %s", p.Default, accept, reject)
	}
	var errs []error
	seen := map[string]bool{}
	for i := range p.Repositories {
		r := &p.Repositories[i]
		err := r.complete()
		if err == nil && seen[r.Prefix] {
			err = fmt.Errorf("prefix: %q has a rule already", r.Prefix)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("repositories[%d].%w", i, err))
		}
		seen[r.Prefix] = true
	}
	return &p, errors.Join(errs...)
}

// complete checks a rule and brings its prefix into the long form.
func (r *rule) complete() error {
	prefix, err := longPrefix(r.Prefix)
	if err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	r.Prefix = prefix
	switch {
	case !slices.Contains([]decision{accept, reject, signed}, r.Policy):
		return fmt.Errorf("policy: %q must be %s, %s or %s", r.Policy, accept, reject, signed)
	case r.Policy == signed && len(r.Keys) == 0:
		return fmt.Errorf("keys: %s needs the path of at least one public key", signed)
	case r.Policy != signed && len(r.Keys) > 0:
		return fmt.Errorf("keys: %s does not use keys; with keys the policy is %s", r.Policy, signed)
	}
	for _, path := range r.Keys {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("keys: %q is not an absolute path", path)
		}
	}
	return nil
}

// longPrefix checks a prefix: a registry's host, or a repository with its host, or a path above repositories.
func longPrefix(prefix string) (string, error) {
	host, path, _ := strings.Cut(canonical(prefix), "/")
	if host != "localhost" && !strings.ContainsAny(host, ".:") {
		return "", fmt.Errorf("%q does not begin with a registry's host, such as docker.io/library", prefix)
	}
	// A host alone is not a reference, so it is tried with a path.
	named, err := reference.ParseNamed(host + "/" + strings.TrimSuffix("x/"+path, "/"))
	if err != nil || !reference.IsNameOnly(named) {
		return "", fmt.Errorf("%q is not a registry's host with an optional path, without a tag", prefix)
	}
	return strings.TrimSuffix(host+"/"+path, "/"), nil
}

// canonical returns a repository or a prefix with the one spelling of its registry's host that rules have. References
// may have the host in upper case, with the port of HTTPS, or as another name of Docker Hub.
func canonical(repository string) string {
	host, path, below := strings.Cut(repository, "/")
	host = registry.CanonicalHost(strings.TrimSuffix(host, ":443"))
	if !below {
		return host
	}
	return host + "/" + path
}

// ruleOf returns the rule of a repository in its long form, such as docker.io/library/busybox. It returns the default
// as a rule with an empty prefix.
func (p *policy) ruleOf(repository string) rule {
	repository = canonical(repository)
	best := rule{Policy: p.Default}
	for _, r := range p.Repositories {
		below := repository == r.Prefix || strings.HasPrefix(repository, r.Prefix+"/")
		if below && len(r.Prefix) > len(best.Prefix) {
			best = r
		}
	}
	return best
}

// String names the rule in errors.
func (r rule) String() string {
	if r.Prefix == "" {
		return "the default"
	}
	return "the rule of " + r.Prefix
}
