package docs

import (
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestEveryClaimNamesItsTests checks that the last column "shown by" of a table names at least one test in each row.
// TestNamedTestsExist checks that the tests exist.
func TestEveryClaimNamesItsTests(t *testing.T) {
	rows := map[string]int{}
	for _, document := range documents(t) {
		columns := 0 // of the current table if it has that column, otherwise 0
		for _, line := range strings.Split(document.Content, "\n") {
			cells := strings.Split(strings.Trim(line, "|"), "|")
			switch last := strings.TrimSpace(cells[len(cells)-1]); {
			case !strings.HasPrefix(line, "|"):
				columns = 0
			case last == "shown by":
				columns = len(cells)
			case columns > 0 && !strings.HasPrefix(last, "---"):
				rows[document.Path]++
				testutil.Assert(t, len(cells) == columns && namedTest.MatchString(last),
					"%s: no test is named by %s", document.Path, line)
			}
		}
	}
	for _, document := range []string{"SECURITY.md", "docs/faults.md"} {
		testutil.Assert(t, rows[document] >= 10, "%s: only %d rows were read", document, rows[document])
	}
}
