package podlogs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// line is one line of a log.
type line struct {
	at     time.Time
	stderr bool
	// partial says that the text goes on in the next line of its stream, because the program's line is long or
	// unfinished.
	partial bool
	text    []byte
}

// parse parses a line of either format, without its newline. The text may share memory with raw.
func parse(raw []byte) (line, error) {
	if bytes.HasPrefix(raw, []byte("{")) {
		return parseJSON(raw)
	}
	return parseCRI(raw)
}

// parseCRI parses a line in the CRI's format: time, stream, tags, text.
func parseCRI(raw []byte) (line, error) {
	stamp, rest, ok := bytes.Cut(raw, []byte(" "))
	stream, rest, ok2 := bytes.Cut(rest, []byte(" "))
	tags, text, ok3 := bytes.Cut(rest, []byte(" "))
	if !ok || !ok2 || !ok3 {
		return line{}, fmt.Errorf("not a line of a container log: %.80q", raw)
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return line{}, fmt.Errorf("not a line of a container log: %w", err)
	}
	first, _, _ := bytes.Cut(tags, []byte(":")) // more tags may follow
	return line{at: at, partial: string(first) == "P", text: text}.of(string(stream))
}

// parseJSON parses a line of Docker's json-file format, which criadapter's log mode "symlink" shows. The text ends in a
// newline unless it is partial.
func parseJSON(raw []byte) (line, error) {
	var read struct {
		Log    string    `json:"log"`
		Stream string    `json:"stream"`
		Time   time.Time `json:"time"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return line{}, fmt.Errorf("not a line of a container log: %w", err)
	}
	text, whole := bytes.CutSuffix([]byte(read.Log), []byte("\n"))
	return line{at: read.Time, partial: !whole, text: text}.of(read.Stream)
}

func (l line) of(stream string) (line, error) {
	if stream != "stdout" && stream != "stderr" {
		return line{}, fmt.Errorf("not a line of a container log: stream %.80q", stream)
	}
	l.stderr = stream == "stderr"
	return l, nil
}
