// Package inside looks at the confinement of a command in a container from inside, to compare two ways of running it.
package inside

import (
	_ "embed"
	"strings"
)

// View is a script for sh that prints the confinement of its shell, one fact a line. It needs a root file system with
// BusyBox.
//
//go:embed view.sh
var View string

// Differences lists the lines that only one of two outputs of View has. The lines of a have the mark +, and the lines
// of b the mark -.
func Differences(a, b string) []string {
	return append(only("+ ", a, b), only("- ", b, a)...)
}

func only(mark, of, other string) []string {
	var lines []string
	for line := range strings.Lines(of) {
		if !strings.Contains("\n"+other, "\n"+line) {
			lines = append(lines, mark+strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}
