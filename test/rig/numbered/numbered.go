// Package numbered has containers write numbered lines, and counts them in CRI logs.
package numbered

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Function is a shell function for the writing container. `lines FROM TO` writes the lines with the numbers FROM to TO,
// each with 100 bytes including the line feed.
const Function = `lines() { awk -v from=$1 -v to=$2 'BEGIN { for (i = from; i <= to; i++) printf "line %08d %085d\n", i, 0 }'; }
`

// Marker is how criadapter begins a line that stands for output it could not read any more.
const Marker = "[criadapter] output is missing here"

// Tally counts a container's lines.
type Tally struct {
	// Written counts the lines that the container wrote, and Read the different lines in the CRI log. Lost counts the
	// missing lines, Repeated the duplicates, and Disordered the other lines that come after a higher number.
	Written, Read, Lost, Repeated, Disordered int
	// Marks are the marker lines, and Gaps the places where the next number is not one higher.
	Marks, Gaps []string
}

func (c Tally) String() string {
	return fmt.Sprintf("written %d read %d lost %d repeated %d disordered %d marked %d", c.Written, c.Read, c.Lost,
		c.Repeated, c.Disordered, len(c.Marks))
}

// Count reads a container's CRI logs, the oldest first. The container has written the lines from 1 to written. If it
// still runs, further lines count as written when they are read.
func Count(written int, paths ...string) (Tally, error) {
	var lines []string
	for _, path := range paths {
		all, err := Contents(path)
		if err != nil {
			return Tally{}, err
		}
		lines = append(lines, all...)
	}
	return CountLines(written, lines)
}

// CountLines is Count for the contents of lines.
func CountLines(written int, lines []string) (Tally, error) {
	c := Tally{Written: written}
	seen := map[int]bool{}
	previous, highest := 0, 0
	for _, line := range lines {
		if strings.HasPrefix(line, Marker) {
			c.Marks = append(c.Marks, line)
			continue
		}
		number, err := Number(line)
		if err != nil {
			return c, err
		}
		switch {
		case seen[number]:
			c.Repeated++
		case number < highest:
			c.Disordered++
		}
		seen[number] = true
		if number != previous+1 {
			c.Gaps = append(c.Gaps, fmt.Sprintf("%d to %d", previous, number))
		}
		previous, highest = number, max(highest, number)
		c.Written = max(c.Written, number)
	}
	c.Read = len(seen)
	c.Lost = c.Written - c.Read
	return c, nil
}

// Contents returns the contents of a CRI log's lines, all of which must be whole.
func Contents(path string) ([]string, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	var all []string
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 || fields[2] != "F" || !strings.HasSuffix(line, "\n") {
			return nil, fmt.Errorf("%s: %q is not a whole line", filepath.Base(path), line)
		}
		all = append(all, fields[3])
	}
	return all, nil
}

// Read reads a file, which a kubelet may have compressed.
func Read(path string) (_ string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var from io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if from, err = gzip.NewReader(file); err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
	}
	text, err := io.ReadAll(from)
	return string(text), err
}

// Number returns the number of a line that Function wrote.
func Number(content string) (int, error) {
	text, rest, _ := strings.Cut(strings.TrimPrefix(content, "line "), " ")
	number, err := strconv.Atoi(text)
	if err != nil || len(rest) != 85 {
		return 0, fmt.Errorf("%q was not written by the container", content)
	}
	return number, nil
}

// Rotated returns the log's renamed files, the oldest first, and the log. A file that a kubelet has compressed but not
// yet removed is listed once. Half-compressed files are left out.
func Rotated(path string) ([]string, error) {
	found, err := filepath.Glob(path + ".*")
	slices.Sort(found)
	files := slices.DeleteFunc(slices.Clone(found), func(file string) bool {
		return strings.HasSuffix(file, ".tmp") || slices.Contains(found, file+".gz")
	})
	return append(files, path), err
}
