package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestGenerate(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		testutil.Must(t, generate(dir, "v1.2.3", "2026-01-31"))
	}
	for path, want := range map[string]string{
		"man/man1/criadapter.1":                     `"Jan 2026" "criadapter v1.2.3"`,
		"man/man1/criadapter-version.1":             "criadapter version",
		"bash-completion/completions/criadapter":    "__start_criadapter",
		"zsh/site-functions/_criadapter":            "#compdef criadapter",
		"fish/vendor_completions.d/criadapter.fish": "complete -c criadapter",
		"man/man1/kubelet-core-run.1":               "kubelet-core v1.2.3",
		"bash-completion/completions/kubelet-core":  "__start_kubelet-core",
	} {
		text, err := os.ReadFile(filepath.Join(first, path))
		testutil.Assert(t, err == nil && strings.Contains(string(text), want), "%s has no %q: %v", path, want, err)
		again, err := os.ReadFile(filepath.Join(second, path))
		testutil.Assert(t, err == nil && string(again) == string(text), "%s differs between two runs: %v", path, err)
	}
	err := generate(first, "v1", "yesterday")
	testutil.Assert(t, err != nil, "a bad date passes")
}
