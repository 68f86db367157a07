package podlogs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Options say which part of a log to read. Path is required.
type Options struct {
	// Path is the log's file. It may be a link.
	Path string
	// Tail is the number of lines to read from the end; negative means all. Parts of a long line count as lines.
	Tail int64
	// Since leaves out older lines; zero leaves out none.
	Since time.Time
	// Timestamps writes the time before each line.
	Timestamps bool
	// Limit is the number of bytes after which Read ends; negative means no limit.
	Limit int64
	// Stdout and Stderr get the streams; nil leaves one out.
	Stdout, Stderr io.Writer
	// Malformed is called with an error for each malformed line. If it returns an error, Read ends with that error. Nil
	// skips malformed lines.
	Malformed func(error) error
	// Running makes Read follow the log. It says whether the container may still write, and is called about every
	// second. Nil reads the log only to its end.
	Running func(context.Context) bool
	// Flush is called before Read waits for more lines, for writers with a buffer.
	Flush func() error
}

// stampFormat is the kubelet's format of times, with a fixed length.
const stampFormat = "2006-01-02T15:04:05.000000000Z07:00"

// errLimit ends Read at Limit.
var errLimit = errors.New("byte limit reached")

// Read reads a log. A missing file is an fs.ErrNotExist. When ctx ends, it returns nil.
func Read(ctx context.Context, opts Options) error {
	r := reader{opts: opts}
	err := r.open()
	if err != nil {
		return err
	}
	defer func() { _ = r.file.Close() }()
	if opts.Tail >= 0 {
		start, err := tailStart(r.file, opts.Tail)
		if err != nil {
			return err
		}
		if _, err := r.file.Seek(start, io.SeekStart); err != nil {
			return err
		}
	}
	if opts.Running == nil {
		err = r.readLines(ctx)
	} else {
		err = r.follow(ctx)
	}
	if errors.Is(err, errLimit) || err != nil && ctx.Err() != nil {
		return nil
	}
	return err
}

// reader reads one log file, and after a rotation the next file at its path.
type reader struct {
	opts    Options
	file    *os.File
	lines   *bufio.Reader
	written int64
	partial [2]bool // by stream: whether its last line goes on
}

func (r *reader) open() error {
	// A pod may put a pipe there, so opening must not block.
	file, err := os.OpenFile(r.opts.Path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a log: it is not a plain file", r.opts.Path), err, file.Close())
	}
	r.file, r.lines = file, bufio.NewReader(file)
	return nil
}

// follow reads until the container has ended.
func (r *reader) follow(ctx context.Context) error {
	changes := watch(ctx, r.opts.Path)
	defer changes.close()
	for last := false; ; {
		if err := r.readLines(ctx); err != nil {
			return err
		}
		another, err := r.reopen(ctx)
		if err != nil || last && !another {
			return err
		}
		if another {
			changes.addTarget(ctx, r.opts.Path)
			continue
		}
		if last {
			continue
		}
		if r.opts.Flush != nil {
			if err := r.opts.Flush(); err != nil {
				return err
			}
		}
		quiet, err := changes.wait(ctx)
		if err != nil {
			return err
		}
		if quiet {
			last = !r.opts.Running(ctx) // one more read gets the lines written since the last read
		}
	}
}

// reopen opens the file at the path if it is not the open file, as after a rotation. It first reads the old file to its
// end. A truncated file is read from its start.
func (r *reader) reopen(ctx context.Context) (another bool, err error) {
	there, err := os.Stat(r.opts.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // during a rotation, or removed
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
	if err := r.readLines(ctx); err != nil {
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

// rewind starts over in a truncated file.
func (r *reader) rewind(size int64) (shorter bool, err error) {
	at, err := r.file.Seek(0, io.SeekCurrent)
	if err != nil || at <= size {
		return false, err
	}
	_, err = r.file.Seek(0, io.SeekStart)
	r.lines.Reset(r.file)
	return true, err
}

// readLines writes all complete lines.
func (r *reader) readLines(ctx context.Context) error {
	for ctx.Err() == nil {
		raw, err := r.lines.ReadBytes('\n')
		if err == io.EOF {
			// The line is not complete yet: it is read again next time.
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
		if r.opts.Malformed == nil {
			return nil
		}
		return r.opts.Malformed(err)
	}
	out, stream := r.opts.Stdout, 0
	if l.stderr {
		out, stream = r.opts.Stderr, 1
	}
	if out == nil || l.at.Before(r.opts.Since) {
		return nil
	}
	text := l.text
	if r.opts.Timestamps && !r.partial[stream] {
		text = fmt.Appendf(nil, "%s %s", l.at.Format(stampFormat), text)
	}
	r.partial[stream] = l.partial
	if !l.partial {
		text = append(text[:len(text):len(text)], '\n')
	}
	return r.write(out, text)
}

// write writes up to the limit.
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
