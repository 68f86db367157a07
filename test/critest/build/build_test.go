package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

var goodRegistry = Registry{Port: 5000, Digest: "sha256:" + strings.Repeat("ab", 32)}

func TestRegistryPatchRefuses(t *testing.T) {
	for name, registry := range map[string]Registry{
		"no port":        {Digest: goodRegistry.Digest},
		"port too high":  {Port: 65536, Digest: goodRegistry.Digest},
		"no digest":      {Port: 5000},
		"short digest":   {Port: 5000, Digest: "sha256:abcd"},
		"code in digest": {Port: 5000, Digest: goodRegistry.Digest[:len(goodRegistry.Digest)-1] + `"`},
	} {
		patch, err := registryPatch(registry)
		testutil.Assert(t, err != nil, "%s: got %v", name, patch)
	}
}

func TestFingerprintTellsRegistriesApart(t *testing.T) {
	seen := make(map[string]Registry)
	for _, registry := range []Registry{
		goodRegistry,
		{Port: 5001, Digest: goodRegistry.Digest},
		{Port: 5000, Digest: "sha256:" + strings.Repeat("cd", 32)},
	} {
		patch, err := registryPatch(registry)
		testutil.Must(t, err)
		other, twice := seen[patch.fingerprint()]
		testutil.Assert(t, !twice, "%v and %v have one fingerprint", registry, other)
		seen[patch.fingerprint()] = registry
	}
}

func TestApply(t *testing.T) {
	const before = "one\nregistry = \"public\"\nthree\npause = \"public/pause\"\n"
	p := patch{
		{"pkg/a.go", `= "public"`, `= "local"`},
		{"pkg/a.go", `"public/pause"`, `"local/pause"`},
		{"b.go", "x", "y"},
	}
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "pkg", "a.go"), before)
	testutil.WriteFile(t, filepath.Join(dir, "b.go"), "x")
	diff, err := p.apply(dir)
	testutil.Must(t, err)
	const want = `--- a/pkg/a.go
+++ b/pkg/a.go
@@ -2 +2 @@
-registry = "public"
+registry = "local"
@@ -4 +4 @@
-pause = "public/pause"
+pause = "local/pause"
--- a/b.go
+++ b/b.go
@@ -1 +1 @@
-x
+y
`
	testutil.Assert(t, diff == want, "diff:\n%s\nwant:\n%s", diff, want)
	after, err := os.ReadFile(filepath.Join(dir, "pkg", "a.go"))
	testutil.Must(t, err)
	testutil.Equal(t, string(after), "one\nregistry = \"local\"\nthree\npause = \"local/pause\"\n", "file after")
}

// A patch for another version of the source must fail, instead of applying in part or not at all.
func TestApplyFailsOnOtherSource(t *testing.T) {
	for name, content := range map[string]string{"missing": "nothing here", "twice": "x x"} {
		dir := t.TempDir()
		testutil.WriteFile(t, filepath.Join(dir, "a.go"), content)
		_, err := (patch{{"a.go", "x", "y"}}).apply(dir)
		testutil.Assert(t, err != nil, "%s: no error", name)
	}
}
