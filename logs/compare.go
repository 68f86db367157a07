package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// What a follower finds in the CRI log behind its saved position was written by one that was killed. It converts the
// same records again, and what is there already is compared and kept: readers take a log that has shrunk for a new one,
// and on a full disk nothing could be written again.

// errDiffers says that whole lines of the CRI log are others than those that were converted again: somebody has emptied
// it since and it has grown again, or it is another file.
var errDiffers = errors.New("the CRI log does not go on with the entries after its saved position")

// compare returns the place in the CRI log that corresponds to the end of batch, and what of the batch is not in the log:
// then the place is the end of the file. A torn last line that the batch does not complete is cut off. It fails with
// errDiffers once; after a search the batch comes behind the last whole line.
func (o *output) compare(batch []byte) (place int64, rest []byte, err error) {
	place = o.size
	for place < o.end && len(batch) > 0 {
		there, err := o.read(place, min(o.end, place+int64(len(batch))))
		if err != nil {
			return 0, nil, err
		}
		equal := commonPrefix(there, batch)
		if equal == len(there) {
			place, batch = place+int64(equal), batch[equal:]
			continue
		}
		line := bytes.LastIndexByte(batch[:equal], '\n') + 1
		if place, err = o.passDifference(place + int64(line)); err != nil {
			return 0, nil, err
		}
		batch = batch[line:]
	}
	return place, batch, nil
}

// passDifference is called with the place of a line that is not the one that was converted, or only its beginning. It
// returns the place where the converted line may be.
func (o *output) passDifference(place int64) (int64, error) {
	there, err := o.read(place, min(o.end, place+maxRecord))
	if err != nil {
		return 0, err
	}
	if n := markerLen(there); n > 0 {
		return place + int64(n), nil // of a gap: not in the engine's log
	}
	lines := o.linesEnd()
	switch {
	case place >= lines: // a torn line
	case !o.searched:
		return 0, errDiffers
	default:
		if at, _ := o.lastTime(); at != 0 {
			return lines, nil
		} // otherwise it is no log
	}
	return place, o.cut(place)
}

// read returns what is in the log between two places, less when somebody has emptied it.
func (o *output) read(from, to int64) ([]byte, error) {
	there := make([]byte, to-from)
	n, err := o.file.ReadAt(there, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the container's log: %w", err)
	}
	if n < len(there) {
		o.end = from + int64(n)
	}
	return there[:n], nil
}

// markerLen is the length of the marker of a gap that text begins with, and of the line in front of it that ends an
// unfinished one; 0 when text begins with another line.
func markerLen(text []byte) int {
	first := bytes.IndexByte(text, '\n') + 1
	if isMarker(text[:first]) {
		return first
	}
	second := first + bytes.IndexByte(text[first:], '\n') + 1
	if bytes.HasSuffix(text[:first], []byte(" F \n")) && isMarker(text[first:second]) {
		return second
	}
	return 0
}

func isMarker(line []byte) bool {
	_, content, found := bytes.Cut(line, []byte(" "+stderr+" F "))
	return found && bytes.HasPrefix(content, []byte(markerText))
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
