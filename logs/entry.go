package logs

import (
	"bytes"
	"time"
)

// Names of the two streams in the engine's files and in the CRI log. A container with a TTY has only stdout.
const (
	stdout = "stdout"
	stderr = "stderr"
)

// entry is one record of an engine's log file. line may point into the buffer that the entry was decoded from.
type entry struct {
	// unixNano is when the engine read the line.
	unixNano int64
	stream   string
	// line is the content without its line feed.
	line []byte
	// partial says that the line continues in the next entry of the stream.
	partial bool
}

// appendCRI appends the entry in the CRI log format. It keeps the content byte by byte, even if it is not UTF-8. A line
// feed in the content would break the format, so it starts another entry with the same time.
func (e *entry) appendCRI(dst []byte) []byte {
	rest := e.line
	for {
		line, after, more := bytes.Cut(rest, []byte{'\n'})
		dst = time.Unix(0, e.unixNano).UTC().AppendFormat(dst, time.RFC3339Nano)
		dst = append(dst, ' ')
		dst = append(dst, e.stream...)
		if e.partial && !more {
			dst = append(dst, " P "...)
		} else {
			dst = append(dst, " F "...)
		}
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return dst
		}
		rest = after
	}
}
