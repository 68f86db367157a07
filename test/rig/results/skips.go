package results

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Skips is the checked-in list of tests that may be skipped, each with its reason.
type Skips struct {
	reasons map[string]string // by "package Test/sub"
	order   []string
}

// ParseSkips reads a list of lines "package Test/sub # reason". Empty lines and lines that begin with # are comments.
func ParseSkips(r io.Reader) (*Skips, error) {
	s := &Skips{reasons: map[string]string{}}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		test, reason, _ := strings.Cut(line, " # ")
		fields, reason := strings.Fields(test), strings.TrimSpace(reason)
		if len(fields) != 2 || reason == "" {
			return nil, fmt.Errorf("line %d: want \"package Test # reason\"", n)
		}
		key := strings.Join(fields, " ")
		if _, ok := s.reasons[key]; ok {
			return nil, fmt.Errorf("line %d: %s is listed twice", n, key)
		}
		s.reasons[key], s.order = reason, append(s.order, key)
	}
	return s, lines.Err()
}

// Unlisted returns the skipped tests that the list does not name.
func (s *Skips) Unlisted(tests []Test) []Test {
	var unlisted []Test
	for _, t := range tests {
		if _, ok := s.reasons[t.String()]; t.Outcome == Skip && !ok {
			unlisted = append(unlisted, t)
		}
	}
	return unlisted
}

// Stale returns the entries whose test was not skipped; it is meaningful only after a run of all tests.
func (s *Skips) Stale(tests []Test) []string {
	skipped := map[string]bool{}
	for _, t := range tests {
		if t.Outcome == Skip {
			skipped[t.String()] = true
		}
	}
	var stale []string
	for _, key := range s.order {
		if !skipped[key] {
			stale = append(stale, key)
		}
	}
	return stale
}
