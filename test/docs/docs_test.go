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
	"github.com/criadapter/criadapter/test/docs/fence"
)

// root is the path from this package to the root of the module.
const root = "../.."

var (
	// link is the target of a Markdown link or picture.
	link = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	// source is a source file named in a code span.
	source = regexp.MustCompile("`([a-z][a-z0-9_./-]*\\.(go|yaml|txt|json))`")
)

// TestNamedFilesExist checks that every linked file exists, and every source file that a code span names from the root.
func TestNamedFilesExist(t *testing.T) {
	for _, document := range documents(t) {
		for _, missing := range missing(root, document.Path, document.Content) {
			t.Errorf("%s names %s, which does not exist", document.Path, missing)
		}
	}
}

// TestReadmeLinksEveryDocument checks that the README's table of documents has every file of docs.
func TestReadmeLinksEveryDocument(t *testing.T) {
	readme := testutil.ReadFile(t, filepath.Join(root, "README.md"))
	found, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	testutil.Require(t, err == nil && len(found) >= 10, "%d documents, %v", len(found), err)
	for _, path := range found {
		link := "(docs/" + filepath.Base(path) + ")"
		testutil.Assert(t, strings.Contains(readme, link), "README.md has no link %s", link)
	}
}

func TestMissing(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"docs/a.md", "server.go"} {
		testutil.WriteFile(t, filepath.Join(root, name), "")
	}
	text := "[a](a.md#part) [b](b.md) [web](https://example.org) `server.go` `state/gone.go` `pod.status`"
	got, want := missing(root, "docs/c.md", text), []string{"b.md", "state/gone.go"}
	testutil.Assert(t, slices.Equal(got, want), "missing %q, want %q", got, want)
}

// documents returns the Markdown files of the tree, without the directory build.
func documents(t *testing.T) []fence.Document {
	t.Helper()
	found, err := fence.Documents(root)
	testutil.Require(t, err == nil && len(found) >= 10, "%d documents: %v", len(found), err)
	return found
}

// goFiles returns the paths of the Go files of the tree. It leaves out .git and these directories of the root.
func goFiles(t *testing.T, without ...string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" ||
			filepath.Dir(path) == root && slices.Contains(without, entry.Name())) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			paths = append(paths, path)
		}
		return nil
	})
	testutil.Must(t, err)
	return paths
}

// missing returns the files that a document names and the tree lacks. Links are relative to the document, and names in
// code spans to the root. A name without a slash may be a file of a user's machine.
func missing(root, document, content string) []string {
	var names []string
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	for _, m := range link.FindAllStringSubmatch(content, -1) {
		if !strings.Contains(m[1], "://") && !exists(filepath.Join(root, filepath.Dir(document), m[1])) {
			names = append(names, m[1])
		}
	}
	for _, m := range source.FindAllStringSubmatch(content, -1) {
		if strings.Contains(m[1], "/") && !strings.HasPrefix(m[1], "build/") && !exists(filepath.Join(root, m[1])) {
			names = append(names, m[1])
		}
	}
	return names
}
