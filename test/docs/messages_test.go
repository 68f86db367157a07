package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// quoted is a message at the start of a row of docs/troubleshooting.md.
var quoted = regexp.MustCompile(`(?m)^\| "([^|]+)" \| `)

// brokenLiteral matches the line break inside a message in the source.
var brokenLiteral = regexp.MustCompile(`" ?\+\n\s*"`)

// TestTroubleshootingQuotesTheSources checks that the server's sources have each message of the document.
func TestTroubleshootingQuotesTheSources(t *testing.T) {
	root := filepath.Join("..", "..")
	document, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	testutil.Must(t, err)
	var sources strings.Builder
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (filepath.Dir(path) == root &&
			(entry.Name() == "test" || entry.Name() == "build" || entry.Name() == "kubelet") ||
			entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		sources.Write(content)
		return err
	})
	testutil.Must(t, err)
	said := brokenLiteral.ReplaceAllLiteralString(sources.String(), "")
	messages := quoted.FindAllStringSubmatch(string(document), -1)
	testutil.Assert(t, len(messages) >= 20, "only %d messages were read", len(messages))
	for _, m := range messages {
		testutil.Assert(t, strings.Contains(said, m[1]), "no source says %q", m[1])
	}
}
