package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// proved are the tables, between <!-- name --> and <!-- /name -->, each row of which names the tests that show it; that
// these exist is TestNamedTestsExist's.
var proved = map[string]string{"SECURITY.md": "claims", "docs/faults.md": "faults"}

// TestEveryClaimNamesItsTests holds each row of those tables to at least one test, in its last column.
func TestEveryClaimNamesItsTests(t *testing.T) {
	for document, section := range proved {
		content, err := os.ReadFile(filepath.Join("..", "..", document))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, opened := strings.Cut(string(content), "<!-- "+section+" -->\n")
		table, _, closed := strings.Cut(rest, "<!-- /"+section+" -->")
		if !opened || !closed {
			t.Errorf("%s has no section %s", document, section)
			continue
		}
		rows := 0
		for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			if len(cells) != 3 || !namedTest.MatchString(cells[2]) {
				t.Errorf("%s: no test is named by %s", document, line)
			}
			rows++
		}
		if rows < 10 {
			t.Errorf("%s: only %d rows were read", document, rows)
		}
	}
}
