package logs

import (
	"fmt"
	"os"
	"time"

	"github.com/containerd/log"
)

// gap is output that the engine dropped before the follower read it. The engine does not count dropped output. The
// gap's size is estimated from its time span and the rate of the remaining output.
type gap struct {
	// since is the time of the last entry before the gap, 0 without one. open is that entry's stream if its line is
	// unfinished.
	since int64
	open  string
	rate  rate

	until int64 // time of the first entry after the gap, set when the entry is written
}

// rate is the rate of a container's output.
type rate struct {
	// bytesPerSecond is in bytes of the engine's files, 0 if unknown.
	bytesPerSecond float64
	// recordSize is the mean size of a record in bytes.
	recordSize float64
}

// openGap begins a gap at the end of the CRI log.
func (c *copier) openGap() {
	c.gap = &gap{}
	if c.passing.met { // the CRI log's last entry is before the gap, so nothing after the gap is skipped
		c.passing = passing{}
	}
	c.gap.since, c.gap.open = c.out.lastTime()
}

// gapWritten counts and logs the present gap, if any. The gap's marker is in the CRI log already.
func (c *copier) gapWritten() {
	if c.gap == nil {
		return
	}
	bytes, entries := c.gap.missing()
	c.counters.gaps.Add(1)
	c.counters.missingBytes.Add(bytes)
	c.counters.missingEntries.Add(entries)
	c.log.WithFields(log.Fields{"seconds": c.gap.seconds(), "bytes": bytes, "entries": entries}).
		Warn("output is missing, container wrote more than the engine keeps")
	c.gap = nil
}

// append appends the gap's marker in the CRI log format. until is the time of the next entry. An unfinished line before
// the gap is ended first, so that readers do not join it with the marker.
func (g *gap) append(dst []byte, until int64) []byte {
	g.until = until
	if g.open != "" {
		dst = (&entry{unixNano: until, stream: g.open}).appendCRI(dst)
	}
	marker := entry{unixNano: until, stream: stderr, line: []byte(g.text())}
	return marker.appendCRI(dst)
}

// markerText is the beginning of a marker's line.
const markerText = "[criadapter] output is missing here"

// text returns the marker's line.
func (g *gap) text() string {
	text := markerText
	if g.since > 0 {
		text += fmt.Sprintf(", of %.1f seconds, from %s to %s", g.seconds(), stamp(g.since), stamp(g.until))
	}
	if bytes, entries := g.missing(); bytes > 0 {
		text += fmt.Sprintf(", about %d entries and %d bytes of the engine's log by the rate of the remaining output",
			entries, bytes)
	}
	return text + ": the engine dropped it before it was read"
}

func stamp(unixNano int64) string { return time.Unix(0, unixNano).UTC().Format(time.RFC3339Nano) }

// seconds returns the length of the gap.
func (g *gap) seconds() float64 {
	if g.since == 0 || g.until < g.since {
		return 0
	}
	return time.Duration(g.until - g.since).Seconds()
}

// missing estimates the size of the gap, 0 if the rate is unknown.
func (g *gap) missing() (bytes, entries uint64) {
	size := g.seconds() * g.rate.bytesPerSecond
	if g.rate.recordSize == 0 {
		return 0, 0
	}
	return uint64(size), uint64(size / g.rate.recordSize)
}

// measureRate measures the rate of the output that the engine still has.
func measureRate(path string, format format) rate {
	list, err := generations(path)
	if err != nil || len(list) == 0 {
		return rate{}
	}
	first, mean := beginning(generationPath(path, list[len(list)-1].number), format)
	var size, last int64
	for _, g := range list {
		file, err := os.Open(generationPath(path, g.number))
		if err != nil {
			return rate{}
		}
		if info, err := file.Stat(); err == nil {
			size += info.Size()
			if e, ok := format.last(file, info.Size()); ok {
				last = max(last, e.unixNano)
			}
		}
		file.Close()
	}
	if first == 0 || last <= first {
		return rate{}
	}
	return rate{bytesPerSecond: float64(size) / time.Duration(last-first).Seconds(), recordSize: mean}
}

// beginning returns the time of a file's first record and the mean size of its first records. Without a record, both
// are 0.
func beginning(path string, format format) (unixNano int64, mean float64) {
	file, err := os.Open(path)
	if err != nil {
		return 0, 0
	}
	defer file.Close()
	data := make([]byte, batchSize)
	n, _ := file.ReadAt(data, 0) // the file may be shorter
	data = data[:n]
	size, count := 0, 0
	for {
		var e entry
		n, err := format.decode(data[size:], &e)
		if err != nil || n == 0 {
			break
		}
		if count == 0 {
			unixNano = e.unixNano
		}
		size, count = size+n, count+1
	}
	if count == 0 {
		return 0, 0
	}
	return unixNano, float64(size) / float64(count)
}
