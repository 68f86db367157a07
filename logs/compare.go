package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// After a kill of the last follower, the CRI log may have entries after the saved position. The next follower converts
// the same records again, compares them with these entries and keeps the entries. Readers would take a shorter log for
// a new one, and a full disk has no room to write again.

// errDiffers says that whole lines of the CRI log differ from the converted ones. Either the log was emptied and has
// grown again, or another file took its place.
var errDiffers = errors.New("the CRI log does not go on with the entries after its saved position")

// compare returns the place in the CRI log that corresponds to the end of batch, and the part of the batch that the log
// lacks. If the log lacks a part, the place is the end of the file. compare cuts off a torn last line that the batch
// does not complete. If whole lines differ, compare fails with errDiffers, unless search has found the place. Then the
// rest of the batch goes after the log's last whole line.
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

// passDifference is called for the line at place, which differs from the converted line or is only its beginning. It
// returns the place to compare the converted line with next. It cuts off a torn line, and fails with errDiffers for a
// whole line unless search has found the place.
func (o *output) passDifference(place int64) (int64, error) {
	there, err := o.read(place, min(o.end, place+maxRecord))
	if err != nil {
		return 0, err
	}
	if n := markerLen(there); n > 0 {
		return place + int64(n), nil // the marker of a gap is not in the engine's log
	}
	lines := o.linesEnd()
	switch {
	case place >= lines: // a torn line
	case !o.searched:
		return 0, errDiffers
	default:
		if at, _ := o.lastTime(); at != 0 {
			return lines, nil
		} // a file whose last line has no time is not a log, and is cut
	}
	return place, o.cut(place)
}

// read returns the log between two places. It returns fewer bytes if the log was emptied meanwhile.
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

// markerLen returns the length of a gap's marker at the beginning of text. If an empty entry that ends an unfinished
// line precedes the marker, the length includes it. The length is 0 if text begins with another line.
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
