package trust

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLongestPrefixDecides(t *testing.T) {
	p, err := parsePolicy([]byte(`
default: reject
repositories:
- {prefix: registry.example.com, policy: accept}
- {prefix: registry.example.com/prod, policy: signed, keys: [/a.pub]}
- {prefix: registry.example.com/prod/open/, policy: accept}
- {prefix: index.docker.io/library, policy: accept}
- {prefix: "localhost:5000/x", policy: accept}
`))
	testutil.Must(t, err)
	for repository, want := range map[string]string{
		"registry.example.com/dev":           "accept by the rule of registry.example.com",
		"registry.example.com/prod":          "signed by the rule of registry.example.com/prod",
		"registry.example.com/prod/app":      "signed by the rule of registry.example.com/prod",
		"registry.example.com/production":    "accept by the rule of registry.example.com",
		"registry.example.com/prod/open/app": "accept by the rule of registry.example.com/prod/open",
		"Registry.Example.com:443/prod/app":  "signed by the rule of registry.example.com/prod",
		"registry-1.docker.io/library/x":     "accept by the rule of docker.io/library",
		"registry.example.com:5000/prod":     "reject by the default",
		"registry.example.com.evil.com/prod": "reject by the default",
		"docker.io/library/busybox":          "accept by the rule of docker.io/library",
		"localhost:5000/x/y":                 "accept by the rule of localhost:5000/x",
		"":                                   "reject by the default",
	} {
		r := p.ruleOf(repository)
		testutil.Equal(t, string(r.Policy)+" by "+r.String(), want, "the rule of %q", repository)
	}
}

func TestPolicyOfTheDocument(t *testing.T) {
	_, text, _ := strings.Cut(testutil.ReadFile(t, "../../docs/image-policy.md"), "```text\n")
	text, _, _ = strings.Cut(text, "```")
	p, err := parsePolicy([]byte(text))
	testutil.Must(t, err)
	testutil.Equal(t, p.ruleOf("registry.example.com/prod/app").Policy, signed, "policy of a signed repository")
}

func TestInvalidPolicies(t *testing.T) {
	rules := func(rule string) string { return "default: reject\nrepositories: [" + rule + "]" }
	for text, want := range map[string]string{
		"":                                                  `default: "" must be accept or reject`,
		"default: signed":                                   `default: "signed" must be`,
		"default: accept\nx: 1":                             `unknown field "x"`,
		"default: a\ndefault: accept":                       "already set",
		"default: accept\n---\nrepositories: []":            "line 2: another document begins",
		rules("{policy: accept}"):                           `repositories[0].prefix: ""`,
		rules("{prefix: busybox, policy: accept}"):          "not begin with a registry's host",
		rules("{prefix: 'a.com/B', policy: accept}"):        "not a registry's host",
		rules("{prefix: 'a.com/b:1', policy: accept}"):      "without a tag",
		rules("{prefix: 'a.com//b', policy: accept}"):       "not a registry's host",
		rules("{prefix: a.com, policy: maybe}"):             `policy: "maybe" must be`,
		rules("{prefix: a.com, policy: signed}"):            "keys: signed needs",
		rules("{prefix: a.com, policy: accept, keys: [a]}"): "does not use keys",
		rules("{prefix: a.com, policy: signed, keys: [a]}"): "not an absolute path",
		rules("{prefix: a.com, policy: accept}, {prefix: a.com/, policy: reject}"): "repositories[1].prefix",
		strings.Repeat("#", maxPolicy+1):                                           "at most",
	} {
		_, err := parsePolicy([]byte(text))
		testutil.Require(t, err != nil, "policy %.80q is valid, want error %q", text, want)
		testutil.Assert(t, strings.Contains(err.Error(), want), "policy %.80q: error %q, want %q", text, err, want)
	}
}

func TestCheck(t *testing.T) {
	s := newSite(t)
	testutil.Must(t, Check(s.policy))
	s.write("prod.pub", "no key")
	err := Check(s.policy)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "prod.pub is not a public key"), "got %v", err)
	s.write("prod.pub", s.key.public+strings.Repeat("#", maxKey))
	err = Check(s.policy)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "prod.pub has more than 65536 bytes"), "got %v", err)
	err = Check(filepath.Join(s.dir, "absent"))
	testutil.Assert(t, err != nil, "a missing policy is valid")
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte("default: reject\nrepositories:\n- {prefix: a.com/b, policy: signed, keys: [/k]}\n"), "a.com/b/c")
	f.Fuzz(func(t *testing.T, text []byte, repository string) {
		p, err := parsePolicy(text)
		if err != nil {
			return
		}
		r := p.ruleOf(repository)
		testutil.Assert(t, r.Policy != signed || len(r.Keys) != 0, "%s decides %q without a key", r, repository)
		testutil.Assert(t, strings.HasPrefix(repository, r.Prefix), "%s decides %q", r, repository)
	})
}

// FuzzEvidence verifies signatures that no key made. None may be valid.
func FuzzEvidence(f *testing.F) {
	key, err := filepath.Abs("testdata/cosign/cosign.pub")
	testutil.Must(f, err)
	keys, err := rule{Keys: []string{key}}.verifiers()
	testutil.Must(f, err)
	f.Add([]byte(`{"critical":{}}`), []byte("sig"), []byte(`{"dsseEnvelope":{"payload":"e30=","signatures":[{}]}}`))
	f.Fuzz(func(t *testing.T, payload, sig, bundle []byte) {
		image := digest.FromString("an image that is not signed")
		check := func(e evidence, keys []signature.Verifier) {
			testutil.Assert(t, e.verify(image, keys) != nil, "valid: %+v", e)
		}
		check(evidence{Payload: payload, Signature: sig}, keys)
		check(evidence{Bundle: bundle}, keys)
	})
}
