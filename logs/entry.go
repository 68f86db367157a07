package logs

import (
	"bytes"
	"time"
)

// Names of the two streams, the same in the engine's files and in the CRI log
// format. A container with a TTY has only the first.
const (
	stdout = "stdout"
	stderr = "stderr"
)

// entry is one record of an engine's log file. Line may point into the buffer that the entry was decoded from.
type entry struct {
	// unixNano is when the engine read the line.
	unixNano int64
	stream   string
	// line is the content without its line feed.
	line []byte
	// partial says that the line goes on in the next entry of the stream.
	partial bool
}

// appendCRI appends the entry in the CRI log format. Content is kept byte by byte, whether or not it is UTF-8. A line
// feed inside it would break the format for every reader, so it starts a new entry with the same time.
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
