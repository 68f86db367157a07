package client

import (
	"bytes"
	"fmt"
	"time"
)

// logLine is one line of a log in the CRI's format: time, stream, tags, text.
type logLine struct {
	at     time.Time
	stderr bool
	// partial says that the text goes on in the next line of its stream: the program wrote a long line, or none to its end.
	partial bool
	text    []byte
}

// parseLogLine parses a line without its newline. The text is not copied.
func parseLogLine(line []byte) (logLine, error) {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	stream, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tags, text, ok3 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 || !ok3 {
		return logLine{}, fmt.Errorf("no line of a container log: %.80q", line)
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return logLine{}, fmt.Errorf("no line of a container log: %w", err)
	}
	if s := string(stream); s != "stdout" && s != "stderr" {
		return logLine{}, fmt.Errorf("no line of a container log: stream %.80q", stream)
	}
	first, _, _ := bytes.Cut(tags, []byte(":")) // more tags may follow
	return logLine{at: at, stderr: string(stream) == "stderr", partial: string(first) == "P", text: text}, nil
}
