package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Options say what of a log is read, and where it goes. Path is required.
type Options struct {
	// Path is the file that the runtime named. It may be a link.
	Path string
	// Tail is how many lines at the end are read; negative for all. Pieces of a long line count as lines.
	Tail int64
	// Since leaves out what is older than that; zero for nothing.
	Since time.Time
	// Timestamps writes the time before each line.
	Timestamps bool
	// Limit ends the reading after so many bytes were written; negative for none.
	Limit int64
	// Stdout and Stderr take the streams; nil leaves one out.
	Stdout, Stderr io.Writer
	// Strange is told of each line that is none of a container's log; nil passes over them.
	Strange func(error) error
	// More says whether the log may still grow, which makes Read follow it; it is asked about every second. Nil means that
	// the log is read to its end only.
	More func(context.Context) bool
	// Idle is called whenever all that is there was written and more is waited for, for writers that keep something back.
	Idle func() error
}

// stampFormat is how times are written, always equally long, as the kubelet does.
const stampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// errLimit ends a reading at its limit.
var errLimit = errors.New("as many bytes as were asked for have been written")

// Read writes a log. A file that is not there is an fs.ErrNotExist. It ends without an error when ctx ends.
func Read(ctx context.Context, opts Options) error {
	r := reader{opts: opts}
	err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.file.Close() }() // it was only read
	if opts.Tail >= 0 {
		start, err := tailStart(r.file, opts.Tail)
		if err != nil {
			return err
		}
		if _, err := r.file.Seek(start, io.SeekStart); err != nil {
			return err
		}
	}
	if opts.More == nil {
		err = r.drain(ctx)
	} else {
		err = r.follow(ctx)
	}
	if errors.Is(err, errLimit) || err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// reader reads one log file, and the ones that follow it when it is rotated.
type reader struct {
	opts    Options
	file    *os.File
	lines   *bufio.Reader
	written int64
	begun   [2]bool // by stream: a line was begun and not ended
}

func (r *reader) open() error {
	file, err := os.Open(r.opts.Path)
	if err != nil {
		return err
	}
	r.file, r.lines = file, bufio.NewReader(file)
	return nil
}

// follow reads until no more can come.
func (r *reader) follow(ctx context.Context) error {
	changes := watch(r.opts.Path)
	defer changes.close()
	for last := false; ; {
		if err := r.drain(ctx); err != nil {
			return err
		}
		another, err := r.turn(ctx)
		if err != nil || last && !another {
			return err
		}
		if another || last {
			continue
		}
		if r.opts.Idle != nil {
			if err := r.opts.Idle(); err != nil {
				return err
			}
		}
		quiet, err := changes.wait(ctx)
		if err != nil {
			return err
		}
		if quiet {
			last = !r.opts.More(ctx) // what was written before the end is read once more
		}
	}
}

// turn goes over to the file that is at the path when that is another one, after the old one was read to its end, but for
// a line that was never finished. A file that was emptied in place is read from its start.
func (r *reader) turn(ctx context.Context) (another bool, err error) {
	there, err := os.Stat(r.opts.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // between two files, or gone for good
	}
	if err != nil {
		return false, err
	}
	open, err := r.file.Stat()
	if err != nil {
		return false, err
	}
	if os.SameFile(there, open) {
		return r.rewind(open.Size())
	}
	if err := r.drain(ctx); err != nil {
		return false, err
	}
	old := r.file
	if err := r.open(); err != nil {
		r.file = old
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	return true, old.Close()
}

// rewind starts over in a file that is shorter than what was read of it.
func (r *reader) rewind(size int64) (shorter bool, err error) {
	at, err := r.file.Seek(0, io.SeekCurrent)
	if err != nil || at <= size {
		return false, err
	}
	_, err = r.file.Seek(0, io.SeekStart)
	r.lines.Reset(r.file)
	return true, err
}

// drain writes all whole lines that are there.
func (r *reader) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		raw, err := r.lines.ReadBytes('\n')
		if err == io.EOF {
			// The end of the line is not written yet: it is read again next time.
			if _, err := r.file.Seek(-int64(len(raw)), io.SeekCurrent); err != nil {
				return err
			}
			r.lines.Reset(r.file)
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.line(raw[:len(raw)-1]); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// line writes one line to its stream.
func (r *reader) line(raw []byte) error {
	l, err := parse(raw)
	if err != nil {
		if r.opts.Strange == nil {
			return nil
		}
		return r.opts.Strange(err)
	}
	out, stream := r.opts.Stdout, 0
	if l.stderr {
		out, stream = r.opts.Stderr, 1
	}
	if out == nil || l.at.Before(r.opts.Since) {
		return nil
	}
	text := l.text
	if r.opts.Timestamps && !r.begun[stream] {
		text = fmt.Appendf(nil, "%s %s", l.at.Format(stampFormat), text)
	}
	r.begun[stream] = l.partial
	if !l.partial {
		text = append(text[:len(text):len(text)], '\n')
	}
	return r.write(out, text)
}

// write writes as much as the limit allows.
func (r *reader) write(out io.Writer, text []byte) error {
	limited := r.opts.Limit >= 0
	if limited && int64(len(text)) > r.opts.Limit-r.written {
		text = text[:r.opts.Limit-r.written]
	}
	n, err := out.Write(text)
	r.written += int64(n)
	if err == nil && limited && r.written >= r.opts.Limit {
		return errLimit
	}
	return err
}
