package results

import (
	"regexp"
	"strings"
)

// Limits of a test's failures in a summary: the lines of all messages together, the lines of one message, and the bytes
// of one line. The summary omits the rest of a long output, such as a server's log.
const (
	maxFailureLines  = 12
	maxMessageLines  = 3
	maxFailureLength = 240
)

// message matches the first line of what a test logged, such as "    faults_test.go:187: LEAKED: got …".
var message = regexp.MustCompile(`^ {4,}\w+\.go:\d+: `)

// Failures returns the first lines of each message in the test's output, for a summary. It is empty if the test logged
// nothing.
func (t Test) Failures() string {
	var shown strings.Builder
	lines, left := 0, 0
	for line := range strings.Lines(t.Output) {
		line = strings.TrimRight(line, "\n")
		if message.MatchString(line) {
			left = maxMessageLines
		}
		if left == 0 || lines == maxFailureLines {
			continue
		}
		left--
		lines++
		if len(line) > maxFailureLength {
			line = strings.ToValidUTF8(line[:maxFailureLength], "") + "…"
		}
		shown.WriteString(line + "\n")
	}
	return shown.String()
}
