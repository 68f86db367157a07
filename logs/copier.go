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
	// batchSize is the approximate number of bytes that one read or write has.
	batchSize = 64 << 10
	// maxWindow is how far a reader looks for a whole record, in bytes. A torn record and the next one fit.
	maxWindow = 2*maxRecord + batchSize
	// maxTurn is the number of batches before the follower checks for other requests.
	maxTurn = 64
)

// buffers are used by a follower while it copies.
type buffers struct {
	in, out []byte
}

// copier writes one engine file at a time to the CRI log. It keeps no bytes between calls: bytes before offset are
// written or skipped, and the next call reads all later bytes again. So the next call repeats a failed write.
type copier struct {
	format format
	out    *output
	log    *log.Entry

	in     *os.File // the engine's file, nil for none
	inode  uint64
	born   int64
	offset int64
	// mark is the end of the last written record. It is offset, unless damaged bytes were skipped since.
	mark int64
	// markedAt is that record's time in Unix nanoseconds, 0 for none.
	markedAt int64
	// passing says which of the next entries are in the CRI log.
	passing passing
	// gap is the gap before the next entry, nil without one.
	gap *gap
	// counters are the service's counters.
	counters *counters
	// observe is Options.ObserveBatch.
	observe func(bytes int, lag time.Duration)
}

// progress is the result of one batch.
type progress struct {
	// consumed is the number of bytes of the engine's file that were converted or skipped.
	consumed int
	// skipped is the number of consumed bytes that belong to no whole record.
	skipped int
	// mark is the end of the batch's last whole record, 0 for none. at is that record's time in Unix nanoseconds.
	mark int
	at   int64
	// passing is the copier's passing after the batch.
	passing passing
}

// copyOn writes the current file from offset to its last whole record, or as much as one turn allows. more reports that
// there is more to copy. final says that the engine will never write to this file again. Then the turn has no limit,
// and an incomplete record at the end is skipped.
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
			return false, nil // the engine's next write wakes the follower
		}
	}
	return true, nil
}

// write writes a batch and records its progress. It changes nothing on an error.
func (c *copier) write(batch []byte, done progress) error {
	if len(batch) > 0 {
		appended, err := c.out.write(batch)
		if err != nil {
			return err
		}
		c.gapWritten()
		if appended > 0 { // otherwise the log has the whole batch already
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

// widen enlarges the buffer for a large record. If the buffer has room for the largest record already, its first bytes
// begin no record. widen then skips to the next place that may begin one.
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

// read fills the buffer from offset on and returns the number of bytes.
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
		// With max-file=1 some engines empty their only file instead of rotating. The follower cannot find out whether
		// it had read the whole file.
		c.log.Warn("engine log was truncated in place, output may be missing")
		c.offset, c.mark, c.markedAt = 0, 0, 0
		return c.read(b)
	}
	return 0, nil
}

// convert appends the whole records of data to b.out, up to a batch, and returns the progress. It skips bytes that
// belong to no whole record.
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
			return done, nil // the engine has not written the rest of the record
		}
		n = c.format.resync(rest)
		if n == 0 && done.consumed == 0 && c.offset == 0 && atEnd && err != nil {
			return done, fmt.Errorf("its first %d bytes hold no record: %w", len(rest), errFormat)
		}
		if n == 0 && atEnd && final {
			n = len(rest)
		}
		if n == 0 {
			return done, nil // more bytes will show whether it is torn
		}
		done.consumed += n
		done.skipped += n
	}
	return done, nil
}

// append appends an entry to a batch, after the marker of a gap if there is one. There is no gap if the last written
// entry was found in the engine's log.
func (c *copier) append(batch []byte, e *entry, met bool) []byte {
	if met {
		c.gap = nil
	}
	if c.gap != nil && len(batch) == 0 {
		batch = c.gap.append(batch, e.unixNano)
	}
	return e.appendCRI(batch)
}

// use continues with another engine file at offset. at is the time of the record that ends there, 0 without one.
func (c *copier) use(file *os.File, g generation, offset, at int64) {
	c.close()
	c.in, c.inode, c.offset, c.mark, c.markedAt = file, g.inode, offset, offset, at
	c.born = bornAt(file)
}

func (c *copier) close() {
	if c.in != nil {
		c.in.Close() // it was only read
		c.in = nil
	}
}
