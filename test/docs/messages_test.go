package docs

import (
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
	document := testutil.ReadFile(t, filepath.Join(root, "docs", "troubleshooting.md"))
	var sources strings.Builder
	for _, path := range goFiles(t, "build", "kubelet", "test") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		sources.WriteString(testutil.ReadFile(t, path))
	}
	said := brokenLiteral.ReplaceAllLiteralString(sources.String(), "")
	messages := quoted.FindAllStringSubmatch(document, -1)
	testutil.Assert(t, len(messages) >= 20, "only %d messages were read", len(messages))
	for _, m := range messages {
		testutil.Assert(t, strings.Contains(said, m[1]), "no source says %q", m[1])
	}
}
