package docs

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

var update = flag.Bool("update", false, "add new names to docs/stable-names.txt")

// named lists the tables of names in the documents, each with the kind of its names. Other tests generate the tables.
var named = []struct {
	kind, document, section string
	// cells matches a row. Its groups are the name, and the cell with flags or labels.
	cells *regexp.Regexp
}{
	{"setting", "configuration.md", "flags", regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\|()")},
	{"command", "configuration.md", "commands",
		regexp.MustCompile("(?m)^\\| `(criadapter [a-z ]+)` \\|[^|]*\\|(.*)\\|$")},
	{"metric", "monitoring.md", "metrics", regexp.MustCompile("(?m)^\\| `(criadapter_\\w+)` \\| \\w+ \\|([^|]*)\\|")},
}

// part is a flag of a command or a label of a metric.
var part = regexp.MustCompile(`--[a-z-]+|[a-z_]+`)

// TestStableNames fails when a name of docs/stable-names.txt is gone, because users rely on it until the next major
// version. It also fails when the file lacks a new name.
func TestStableNames(t *testing.T) {
	path := filepath.Join(root, "docs", "stable-names.txt")
	listed := strings.Split(strings.TrimSpace(testutil.ReadFile(t, path)), "\n")
	now := stableNames(t)
	var added []string
	for _, name := range now {
		if !slices.Contains(listed, name) {
			added = append(added, name)
		}
	}
	if *update {
		all := append(slices.Clone(listed), added...)
		slices.Sort(all)
		testutil.Must(t, os.WriteFile(path, []byte(strings.TrimSpace(strings.Join(all, "\n"))+"\n"), 0o644))
		return
	}
	testutil.Assert(t, len(added) == 0, "new names, go test ./test/docs -update adds them: %q", added)
	for _, name := range listed {
		testutil.Assert(t, slices.Contains(now, name), "%q is gone; it must stay until the next major version", name)
	}
}

// stableNames returns the current names: "setting NAME", "command NAME", "command NAME --FLAG", "metric NAME" and
// "metric NAME LABEL".
func stableNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, table := range named {
		text := testutil.ReadFile(t, filepath.Join(root, "docs", table.document))
		_, section, found := strings.Cut(text, "<!-- "+table.section+" -->")
		testutil.Require(t, found, "%s has no section %s", table.document, table.section)
		section, _, _ = strings.Cut(section, "<!-- /")
		rows := table.cells.FindAllStringSubmatch(section, -1)
		testutil.Require(t, len(rows) > 5, "%s: %d names in section %s", table.document, len(rows), table.section)
		for _, row := range rows {
			name := table.kind + " " + row[1]
			names = append(names, name)
			for _, of := range parts(table.kind, row[2]) {
				names = append(names, name+" "+of)
			}
		}
	}
	return names
}

// parts returns the flags or labels in a row's cell.
func parts(kind, cell string) []string {
	var found []string
	for _, word := range part.FindAllString(cell, -1) {
		if isFlag := strings.HasPrefix(word, "--"); isFlag == (kind == "command") {
			found = append(found, word)
		}
	}
	return found
}
