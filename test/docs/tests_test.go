package docs

import (
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
	declared := declaredTests(t)
	named := 0
	for _, document := range documents(t) {
		for _, m := range namedTest.FindAllStringSubmatch(document.Content, -1) {
			named++
			testutil.Assert(t, slices.Contains(declared, m[1]),
				"%s names %s, which does not exist", document.Path, m[1])
		}
	}
	testutil.Assert(t, named >= 20, "only %d names were read", named)
}

// declaredTests returns the names of all tests of the tree.
func declaredTests(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, path := range goFiles(t, "build") {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		content := testutil.ReadFile(t, path)
		for _, m := range declaredTest.FindAllStringSubmatch(content, -1) {
			names = append(names, m[1])
		}
	}
	return names
}
