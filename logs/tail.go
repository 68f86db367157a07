package logs

import (
	"bytes"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// orderSlack is by how much the times of two streams may be out of order, in nanoseconds: the engine gives an entry
	// its time before it waits for its turn to write it.
	orderSlack = int64(100 * time.Millisecond)
	// searchWindow bounds how far back the entries with the last one's time are looked for, in bytes.
	searchWindow = 64 << 20
)

// search goes to the place of the CRI log where the entries of its last entry's time begin: all pieces of a long line
// have one time. It returns what is in front of that place; without an entry the place is the end of the last whole
// line.
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
			return passing{until: last, younger: younger}
		}
	}
}

// lastRun returns where the first line with the time of the last one begins in a piece of a log that ends with a whole
// line, and the greater times in front of it. It is certain when there is a line that is so much older that no line in
// front of it matters. whole says that the piece begins with a whole line, too.
func lastRun(text []byte, last int64, whole bool) (place int, younger []int64, certain bool) {
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n') + 1
		switch then := entryTime(text[at : at+n]); {
		case at == 0 && !whole:
		case then == last:
			return at, younger, certain
		case then > last:
			younger = append(younger, then)
		case then != 0 && then < last-orderSlack:
			younger, certain = nil, true
		}
		at += n
	}
	return len(text), younger, certain
}

// tail reads a piece of the log that ends with a whole line, empty when that fails.
func (o *output) tail(from, end int64) []byte {
	text := make([]byte, end-from)
	if _, err := o.file.ReadAt(text, from); err != nil {
		return nil
	}
	return text
}

// linesEnd is where the last whole line of the log ends.
func (o *output) linesEnd() int64 {
	from := max(0, o.end-maxRecord)
	text := o.tail(from, o.end)
	return o.end - int64(len(text)-bytes.LastIndexByte(text, '\n')-1)
}

// lastTime returns the time of the log's last entry, 0 when there is none, and its stream if it is an unfinished line.
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

// entryTime is the time of a line in the CRI log format, 0 when it has none.
func entryTime(line []byte) int64 {
	text, _, _ := bytes.Cut(line, []byte{' '})
	at, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0
	}
	return at.UnixNano()
}

// lastLine returns the last whole line of the log without its line feed, empty when there is none.
func (o *output) lastLine() []byte {
	end := o.linesEnd()
	text := o.tail(max(0, end-maxRecord), end)
	body, whole := bytes.CutSuffix(text, []byte{'\n'})
	if !whole {
		return nil
	}
	return body[bytes.LastIndexByte(body, '\n')+1:]
}

// searchRotated is search for the log that was rotated last and is not compressed yet. open is the stream of its last
// entry if that is an unfinished line.
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
		if p.until != 0 {
			break
		}
	}
	p.elsewhere = true
	return p, open, err
}
