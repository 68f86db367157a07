package podman

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Module is podman's module.
const Module = "github.com/containers/podman/v5"

// Row is a line of the report.
type Row struct {
	// With names other manifests, which are played together with the row's manifest.
	With []string
	// Outcome begins with "runs", "waits" or "refused".
	Outcome string
	// said is a text that must be in the play's output. Empty fits any output.
	said string
}

// code matches the text between backquotes.
var code = regexp.MustCompile("`([^`]+)`")

// Report reads the rows of the report, by name of manifest. The columns are the manifest, the other manifests that are
// played with it, the outcome in podman, and the outcome in kubelet-core. Text between backquotes in the last column
// must be in the output.
func Report(path string) (map[string]Row, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows := map[string]Row{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "|\n "), "|")
		if len(cells) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		row := Row{Outcome: strings.TrimSpace(cells[3])}
		first := code.FindStringSubmatch(cells[0])
		if first == nil {
			return nil, fmt.Errorf("%s: no manifest between backquotes in %q", path, line)
		}
		name := first[1]
		for _, other := range code.FindAllStringSubmatch(cells[1], -1) {
			row.With = append(row.With, other[1])
		}
		if said := code.FindStringSubmatch(row.Outcome); said != nil {
			row.said = said[1]
		}
		if _, twice := rows[name]; twice {
			return nil, fmt.Errorf("%s: two rows for %s", path, name)
		}
		rows[name] = row
	}
	return rows, nil
}

// Fits says whether a play ended as the row says: with exit code 0 if its pods run, with 1 if it was refused. A play
// that waits was interrupted.
func (r Row) Fits(exit int, output string) bool {
	if !strings.Contains(output, r.said) {
		return false
	}
	switch word, _, _ := strings.Cut(r.Outcome, " "); strings.TrimRight(word, ":,") {
	case "runs":
		return exit == 0
	case "refused":
		return exit == 1
	case "waits":
		return exit != 0
	}
	return false
}
