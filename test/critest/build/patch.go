package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/criadapter/criadapter/test/gomod"
)

// Registry is the registry with critest's images.
type Registry struct {
	// Port is the registry's TCP port. It must answer at 127.0.0.1 and at localhost, which critest uses as two
	// registries.
	Port int
	// Digest is the manifest digest ("sha256:…") of the image that critest pulls by digest. The published image cannot
	// be rebuilt with the same digest.
	Digest string
}

// replacement changes a string that occurs once in a file.
type replacement struct {
	// path is relative to the module.
	path     string
	old, new string
}

// patch is a list of replacements. Replacements in the same file follow each other.
type patch []replacement

// digestPattern is what a digest must look like before it is written into source.
var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// registryPatch replaces every public registry that critest's Linux specs name.
func registryPatch(registry Registry) (patch, error) {
	if registry.Port < 1 || registry.Port > 65535 {
		return nil, fmt.Errorf("registry port %d is not in 1-65535", registry.Port)
	}
	if !digestPattern.MatchString(registry.Digest) {
		return nil, fmt.Errorf("digest %q is not sha256:<64 hexadecimal digits>", registry.Digest)
	}
	first := fmt.Sprintf("127.0.0.1:%d", registry.Port)
	second := fmt.Sprintf("localhost:%d", registry.Port)
	const publishedDigest = "test-image-digest@sha256:9700f9a2f5bf2c45f2f605a0bd3bce7cf37420ec9d3ed50ac2758413308766bf"
	return patch{
		{"pkg/framework/test_context.go", `DefaultRegistryPrefix = "registry.k8s.io"`,
			`DefaultRegistryPrefix = "` + first + `"`},
		{"pkg/validate/consts.go", `"gcr.io/k8s-staging-cri-tools/"`, `"` + first + `/k8s-staging-cri-tools/"`},
		{"pkg/validate/consts.go", `registry + "` + publishedDigest + `"`,
			`registry + "test-image-digest@` + registry.Digest + `"`},
		{"pkg/validate/consts.go", `"registry.k8s.io/pause:3.9"`, `"` + first + `/pause:3.9"`},
		{"pkg/validate/consts.go", `"k8s.gcr.io/pause:3.9"`, `"` + second + `/pause:3.9"`},
		{"pkg/benchmark/image.go", `"public.ecr.aws/docker/library/"`, `"` + first + `/docker/library/"`},
	}, nil
}

// fingerprint differs for different patches.
func (p patch) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", p))
	return hex.EncodeToString(sum[:6])
}

// apply changes the files under dir and returns the change as a unified diff without context. It fails if a string does
// not occur exactly once.
func (p patch) apply(dir string) (diff string, err error) {
	var diffs strings.Builder
	for start := 0; start < len(p); {
		end := start + 1
		for end < len(p) && p[end].path == p[start].path {
			end++
		}
		path := filepath.Join(dir, filepath.FromSlash(p[start].path))
		before, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		for _, r := range p[start:end] {
			if err := gomod.ReplaceOnce(path, r.old, r.new); err != nil {
				return "", err
			}
		}
		after, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		diffs.WriteString(lineDiff(p[start].path, string(before), string(after)))
		start = end
	}
	return diffs.String(), nil
}

// lineDiff returns the unified diff, without context, of two texts with the same number of lines.
func lineDiff(path, before, after string) string {
	var diff strings.Builder
	fmt.Fprintf(&diff, "--- a/%s\n+++ b/%s\n", path, path)
	afterLines := strings.Split(after, "\n")
	for i, line := range strings.Split(before, "\n") {
		if line != afterLines[i] {
			fmt.Fprintf(&diff, "@@ -%d +%d @@\n-%s\n+%s\n", i+1, i+1, line, afterLines[i])
		}
	}
	return diff.String()
}
