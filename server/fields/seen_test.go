package fields

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// testSources are the sources of the tests in a directory of the repository.
type testSources struct {
	text string
	// plain is the text without underscores and in lower case.
	plain string
}

// directories reads each directory of tests once.
type directories map[string]testSources

// TestEveryImplementedFieldIsSeen fails for a field without a test that looks at it on a real engine. It also fails if
// a row names a test that does not exist. It fails for a field whose name is missing in the directories of its tests.
func TestEveryImplementedFieldIsSeen(t *testing.T) {
	read, counted := directories{}, 0
	for _, row := range table() {
		if row.is != implemented {
			continue
		}
		counted += len(row.fields)
		if seen := len(row.seen)+len(row.unseen) > 0; seen == (row.says == leads) {
			t.Errorf("%s: the row of %v: its field seen must name a test that looks into a running container, %s",
				row.file, row.fields, whereToLook)
		}
		for _, test := range row.seen {
			err := read.find(t, test)
			testutil.Assert(t, err == nil, "%s: the row of %v: %v", row.file, row.fields, err)
		}
		for _, field := range row.fields {
			if len(row.seen) > 0 && row.unseen == "" && !read.name(t, field, row.seen) {
				t.Errorf("%s: none of the tests in the row of %s looks at the field: add a check, %s", row.file, field,
					whereToLook)
			}
		}
	}
	t.Logf("%d implemented fields", counted)
}

// whereToLook is the usual place for the test of a new field.
const whereToLook = "for example in test/e2e/fields_test.go"

// name reports whether the sources in the directories of some tests contain the name of a field, in any spelling:
// stop_signal, stopSignal or StopSignal.
func (d directories) name(t *testing.T, field string, tests []string) bool {
	t.Helper()
	_, name, _ := strings.Cut(field, ".")
	for _, test := range tests {
		dir, _, _ := strings.Cut(test, ".")
		if strings.Contains(d.read(t, dir).plain, plain(name)) {
			return true
		}
	}
	return false
}

// find looks for a test, and for the name of its part, in the sources of its directory.
func (d directories) find(t *testing.T, test string) error {
	t.Helper()
	dir, name, _ := strings.Cut(test, ".")
	name, part, _ := strings.Cut(name, "/")
	text := d.read(t, dir).text
	if !strings.Contains(text, "func "+name+"(t *testing.T)") || !strings.Contains(text, `"`+part+`"`) && part != "" {
		return fmt.Errorf("there is no test %s", test)
	}
	return nil
}

func (d directories) read(t *testing.T, dir string) testSources {
	t.Helper()
	if known, ok := d[dir]; ok {
		return known
	}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	testutil.Must(t, err)
	var all strings.Builder
	for _, file := range files {
		all.WriteString(testutil.ReadFile(t, file))
	}
	d[dir] = testSources{text: all.String(), plain: plain(all.String())}
	return d[dir]
}

func plain(text string) string {
	return strings.ToLower(strings.ReplaceAll(text, "_", ""))
}
