package logs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/containerd/log"
)

const (
	// batchSize is about how many bytes are read, and how many written, at once.
	batchSize = 64 << 10
	// maxWindow is how far a reader looks for a whole record, in bytes: a torn one and the next both fit.
	maxWindow = 2*maxRecord + batchSize
	// maxTurn is how many batches are copied before the follower looks for other requests.
	maxTurn = 64
)

// buffers are what a follower needs while it copies.
type buffers struct {
	in, out []byte
}

func newBuffers() *buffers {
	return &buffers{in: make([]byte, batchSize), out: make([]byte, 0, 2*batchSize)}
}

// copier writes one engine file at a time to the CRI log. It keeps no bytes between calls: everything before offset is
// written out, everything behind it is read again, and so a failed write is repeated by the next call.
type copier struct {
	format format
	out    *output
	log    *log.Entry

	in     *os.File // the engine's file, nil for none
	inode  uint64
	born   int64
	offset int64
	// mark is the end of the last record that was written out: offset, unless damaged bytes were passed over since.
	mark int64
	// markedAt is that record's time in Unix nanoseconds, 0 for none.
	markedAt int64
	// passing is which of the next entries are in the CRI log.
	passing passing
	// gap, when not nil, is in front of the next entry.
	gap *gap
	// counters are those of the service.
	counters *counters
	// observe is Options.ObserveBatch.
	observe func(bytes int, lag time.Duration)
}

// progress is what became of one batch.
type progress struct {
	// consumed is how many bytes of the engine's file are dealt with.
	consumed int
	// skipped is how many of them were not in a whole record.
	skipped int
	// mark is where the last whole record of the batch ends, 0 for none, and at
	// is that record's time in Unix nanoseconds.
	mark int
	at   int64
	// passing is the copier's after the batch.
	passing passing
}

// copyOn writes out what the current file holds from offset on, to the last whole record or as much as one turn allows.
// more reports that there is more to copy. final says that the engine will never write to this file again: the turn is
// as long as it takes, and an incomplete record at the end is given up.
func (c *copier) copyOn(b *buffers, final bool) (more bool, err error) {
	for turn := 0; final || turn < maxTurn; turn++ {
		n, err := c.read(b)
		if err != nil || n == 0 {
			return false, err
		}
		atEnd := n < len(b.in)
		done, err := c.convert(b, b.in[:n], atEnd, final)
		if err != nil {
			return false, err
		}
		if done.consumed == 0 && !atEnd {
			if done, err = c.widen(b); err != nil {
				return false, err
			}
		}
		err = c.write(b.out, done)
		if errors.Is(err, errDiffers) {
			c.passing = c.out.search()
			continue
		}
		if err != nil {
			return false, err
		}
		full := len(b.out) >= batchSize
		if atEnd && !full && (!final || done.consumed == n) {
			return false, nil // what the engine writes from now on wakes the follower
		}
	}
	return true, nil
}

// write writes a batch out and notes what became of it. On an error nothing has changed.
func (c *copier) write(batch []byte, done progress) error {
	if len(batch) > 0 {
		appended, err := c.out.write(batch)
		if err != nil {
			return err
		}
		c.gapWritten()
		if appended > 0 { // otherwise it was there already
			c.observe(appended, time.Since(time.Unix(0, done.at)))
		}
	}
	if done.mark > 0 {
		c.mark, c.markedAt = c.offset+int64(done.mark), done.at
	}
	c.offset += int64(done.consumed)
	c.passing = done.passing
	if done.skipped > 0 {
		c.counters.damaged.Add(uint64(done.skipped))
		c.log.WithField("bytes", done.skipped).Warn("skipped damaged record in engine log")
	}
	return nil
}

// widen makes room for a record that the buffer is too small for. When even the largest would fit, there is none: its
// place is passed over, up to where a record may begin that is not wholly in the buffer.
func (c *copier) widen(b *buffers) (progress, error) {
	if len(b.in) < maxWindow {
		b.in = make([]byte, min(2*len(b.in), maxWindow))
		return progress{passing: c.passing}, nil
	}
	if c.offset == 0 {
		return progress{}, fmt.Errorf("its first %d bytes hold no record: %w", len(b.in), errFormat)
	}
	n := len(b.in) - maxRecord - 2*sizeLen
	return progress{consumed: n, skipped: n, passing: c.passing}, nil
}

// read fills the buffer from offset on and returns how much there was.
func (c *copier) read(b *buffers) (int, error) {
	n, err := c.in.ReadAt(b.in, c.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("reading the engine's log: %w", err)
	}
	if n > 0 || c.offset == 0 {
		return n, nil
	}
	info, err := c.in.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading the engine's log: %w", err)
	}
	if info.Size() < c.offset {
		// With max-file=1 the engine empties its only file instead of rotating.
		// Whether everything in it had been read nobody knows.
		c.log.Warn("engine log was truncated in place, output may be missing")
		c.offset, c.mark, c.markedAt = 0, 0, 0
		return c.read(b)
	}
	return 0, nil
}

// convert appends the whole records at the start of data to b.out, up to a batch, and says how much of data that was.
func (c *copier) convert(b *buffers, data []byte, atEnd, final bool) (progress, error) {
	done := progress{passing: c.passing}
	var e entry
	b.out = b.out[:0]
	for done.consumed < len(data) && len(b.out) < batchSize {
		rest := data[done.consumed:]
		n, err := c.format.decode(rest, &e)
		if n > 0 && err == nil {
			if !done.passing.covers(&e) {
				b.out = c.append(b.out, &e, done.passing.met)
			}
			done.consumed += n
			done.mark, done.at = done.consumed, e.unixNano
			continue
		}
		if err == nil && !(atEnd && (final || c.format.overtaken(rest))) {
			return done, nil // the rest of the record has yet to come
		}
		n = c.format.resync(rest)
		if n == 0 && done.consumed == 0 && c.offset == 0 && atEnd && err != nil {
			return done, fmt.Errorf("its first %d bytes hold no record: %w", len(rest), errFormat)
		}
		if n == 0 && atEnd && final {
			n = len(rest)
		}
		if n == 0 {
			return done, nil // decided when there is more to look at
		}
		done.consumed += n
		done.skipped += n
	}
	return done, nil
}

// append appends an entry to a batch, behind the marker of a gap if there is one. There is none when the last entry in
// front of it was met in the engine's log.
func (c *copier) append(batch []byte, e *entry, met bool) []byte {
	if met {
		c.gap = nil
	}
	if c.gap != nil && len(batch) == 0 {
		batch = c.gap.append(batch, e.unixNano)
	}
	return e.appendCRI(batch)
}

// use goes on with another engine file. A record ends at offset, of which at is the time.
func (c *copier) use(file *os.File, g generation, offset, at int64) {
	c.close()
	c.in, c.inode, c.offset, c.mark, c.markedAt = file, g.inode, offset, offset, at
	c.born = bornAt(file)
}

func (c *copier) close() {
	if c.in != nil {
		c.in.Close() // read only: nothing can be lost
		c.in = nil
	}
}
