package stats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

const (
	// firstBuffer is the initial size of the buffer in bytes. It holds every file of an ordinary cgroup.
	firstBuffer = 8 << 10
	// maxFile is the largest number of bytes read of one file. The kernel's files are far shorter.
	maxFile = 4 << 20
)

// reader reads small files of the kernel into one reused buffer. Its zero value is ready. It is not safe for concurrent
// use.
//
// It makes the system calls itself: an os.File would register each file with the poller, which costs more than reading
// it.
type reader struct {
	buffer []byte
}

// read returns the content of a file, valid until the next call.
func (r *reader) read(path string) ([]byte, error) {
	fd, err := open(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	if r.buffer == nil {
		r.buffer = make([]byte, firstBuffer)
	}
	length := 0
	for {
		n, err := unix.Read(fd, r.buffer[length:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return r.buffer[:length], nil
		}
		if length += n; length < len(r.buffer) {
			continue
		}
		if length >= maxFile {
			return nil, fmt.Errorf("%s has more than %d bytes: %w", path, maxFile, io.ErrShortBuffer)
		}
		r.buffer = append(r.buffer, make([]byte, length)...)
	}
}

func open(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// value returns the single number of a file. The text "max" is unlimited.
func (r *reader) value(path string) (uint64, error) {
	content, err := r.read(path)
	if err != nil {
		return 0, err
	}
	n, ok := parseValue(content)
	if !ok {
		return 0, fmt.Errorf("%s holds %.40q, which is not a number", path, content)
	}
	return n, nil
}
