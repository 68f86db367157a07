package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// marker is how criadapter begins a line that stands for output it could not read any more.
const marker = "[criadapter] output is missing here"

// tally is what became of a writer's lines.
type tally struct {
	// written is how many lines the container wrote, read how many different ones are in the CRI log, lost those that
	// are not, and repeated those that are there again.
	written, read, lost, repeated int
	// marks are the markers, and gaps the places where the numbers do not go on.
	marks, gaps []string
}

func (c tally) String() string {
	return fmt.Sprintf("written %d read %d lost %d repeated %d marked %d", c.written, c.read, c.lost, c.repeated, len(c.marks))
}

// count reads CRI logs, the oldest first, of a container that has written the lines from 1 to written.
func count(t *testing.T, written int, paths ...string) tally {
	t.Helper()
	c := tally{written: written}
	seen := map[int]bool{}
	previous := 0
	for _, path := range paths {
		for _, content := range contents(t, path) {
			if strings.HasPrefix(content, marker) {
				c.marks = append(c.marks, content)
				continue
			}
			number := lineNumber(t, content)
			if seen[number] {
				c.repeated++
			}
			seen[number] = true
			if number != previous+1 {
				c.gaps = append(c.gaps, fmt.Sprintf("%d to %d", previous, number))
			}
			previous = number
		}
	}
	c.read = len(seen)
	c.lost = written - c.read
	return c
}

// contents returns the contents of a CRI log's lines, all of which must be whole.
func contents(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 || fields[2] != "F" || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%s: %q is no whole line", filepath.Base(path), line)
		}
		all = append(all, fields[3])
	}
	return all
}

// lineNumber reads a line as the writer's function makes it.
func lineNumber(t *testing.T, content string) int {
	t.Helper()
	text, rest, _ := strings.Cut(strings.TrimPrefix(content, "line "), " ")
	number, err := strconv.Atoi(text)
	if err != nil || len(rest) != 85 {
		t.Fatalf("%q was not written by the container", content)
	}
	return number
}

// rotatedLogs returns the log's renamed files, the oldest first, and the log.
func rotatedLogs(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob(path + ".*")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return append(files, path)
}
