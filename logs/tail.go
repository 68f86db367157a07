package logs

import (
	"bytes"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// orderSlack is the most by which an entry can be older than an entry of the other stream before it, in
	// nanoseconds. The engine sets an entry's time before the entry waits for its turn to be written.
	orderSlack = int64(100 * time.Millisecond)
	// searchWindow bounds the search for entries with the last entry's time, in bytes.
	searchWindow = 64 << 20
)

// search sets o.size to the place of the first entry with the last entry's time in the CRI log. All pieces of a long
// line have the same time. search also returns the times by which a follower recognizes the entries before that place.
// Without an entry, the place is the end of the last whole line.
func (o *output) search() passing {
	o.searched = true
	end := o.linesEnd()
	last, _ := o.lastTime()
	if last == 0 {
		o.size = min(o.size, end)
		return passing{}
	}
	for window := int64(batchSize); ; window *= 4 {
		from := max(0, end-window)
		place, younger, certain := lastRun(o.tail(from, end), last, from == 0)
		if certain || from == 0 || window >= searchWindow {
			o.size = from + int64(place)
			return passing{last: last, younger: younger}
		}
	}
}

// lastRun returns the place of the first line in text with the time last, and the later times before that place. text
// ends with a whole line. whole says that text begins with a whole line, too. certain says that a line is more than
// orderSlack older than last, so that no line before text matters.
func lastRun(text []byte, last int64, whole bool) (place int, younger []int64, certain bool) {
	at := 0
	for line := range bytes.Lines(text) { // also ends if another program changes the log meanwhile
		switch then := entryTime(line); {
		case at == 0 && !whole:
		case then == last:
			return at, younger, certain
		case then > last:
			younger = append(younger, then)
		case then != 0 && then < last-orderSlack:
			younger, certain = nil, true
		}
		at += len(line)
	}
	return len(text), younger, certain
}

// tail returns the log's bytes from offset from to offset end, nil on an error.
func (o *output) tail(from, end int64) []byte {
	text := make([]byte, end-from)
	if _, err := o.file.ReadAt(text, from); err != nil {
		return nil
	}
	return text
}

// linesEnd returns the offset of the end of the log's last whole line.
func (o *output) linesEnd() int64 {
	from := max(0, o.end-maxRecord)
	text := o.tail(from, o.end)
	return o.end - int64(len(text)-bytes.LastIndexByte(text, '\n')-1)
}

// lastTime returns the time of the log's last entry, 0 without one, and its stream if its line is unfinished.
func (o *output) lastTime() (unixNano int64, open string) {
	line := o.lastLine()
	fields := bytes.SplitN(line, []byte{' '}, 4)
	if len(fields) < 3 {
		return 0, ""
	}
	if stream, known := knownStream(fields[1]); known && string(fields[2]) == "P" {
		open = stream
	}
	return entryTime(line), open
}

// entryTime returns the time of a line in the CRI log format, in nanoseconds since 1970. It is 0 if the line has none.
func entryTime(line []byte) int64 {
	text, _, _ := bytes.Cut(line, []byte{' '})
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0
	}
	return at.UnixNano()
}

// lastLine returns the last whole line of the log without its line feed, empty without one.
func (o *output) lastLine() []byte {
	end := o.linesEnd()
	text := o.tail(max(0, end-maxRecord), end)
	body, whole := bytes.CutSuffix(text, []byte{'\n'})
	if !whole {
		return nil
	}
	return body[bytes.LastIndexByte(body, '\n')+1:]
}

// searchRotated is search in the newest uncompressed rotated log that has an entry. open is the stream of the last
// entry if the entry's line is unfinished.
func (o *output) searchRotated() (p passing, open string, err error) {
	rotated, err := rotatedLogs(o.path)
	for _, path := range slices.Backward(rotated) {
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // removed meanwhile
		}
		old := output{path: path, file: file}
		if info, err := file.Stat(); err == nil {
			old.end = info.Size()
			p = old.search()
			_, open = old.lastTime()
		}
		file.Close() // only read
		if p.last != 0 {
			break
		}
	}
	p.otherFile = true
	return p, open, err
}
