package testutil

import (
	"os"
	"strings"
	"testing"
)

// Section fails the test unless want is the part of a document between the lines <!-- name --> and <!-- /name -->. With
// update it writes want there instead.
func Section(t testing.TB, path, name, want string, update bool) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, found := strings.Cut(string(content), begin)
	part, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no %s … %s", path, strings.TrimSpace(begin), end)
	case part == want:
	case !update:
		t.Errorf("the part %q of %s is out of date, run: go test . -update in the directory of this test", name, path)
	default:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
