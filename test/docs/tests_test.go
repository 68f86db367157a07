package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

var (
	// namedTest is a test that a document names in a code span.
	namedTest = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`")
	// declaredTest is a test in a source file.
	declaredTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)\(`)
)

// TestNamedTestsExist checks that every test that a document names exists.
func TestNamedTestsExist(t *testing.T) {
	root := filepath.Join("..", "..")
	declared := declaredTests(t, root)
	named := 0
	for _, document := range documents(t, root) {
		for _, m := range namedTest.FindAllStringSubmatch(document.Content, -1) {
			named++
			if !slices.Contains(declared, m[1]) {
				t.Errorf("%s names %s, which does not exist", document.Path, m[1])
			}
		}
	}
	testutil.Assert(t, named >= 20, "only %d names were read", named)
}

// declaredTests returns the names of all tests of the tree.
func declaredTests(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "build" && filepath.Dir(path) == root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		for _, m := range declaredTest.FindAllStringSubmatch(string(content), -1) {
			names = append(names, m[1])
		}
		return err
	})
	testutil.Must(t, err)
	return names
}
