package logs

import (
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
)

// Log drivers of the engine whose files can be followed.
const (
	DriverLocal    = "local"
	DriverJSONFile = "json-file"
)

// errFormat says that an engine's log file does not hold what its driver should have written there.
var errFormat = errors.New("the engine's log file is not in the expected format")

// errTorn says that the bytes at hand are not the beginning of a record.
var errTorn = errors.New("not a log record")

// maxRecord is the largest record that is believed, in bytes. The engine cuts
// lines at 16 KiB and refuses to read back records of more than 1 MB.
const maxRecord = 1_000_000

// format knows the files of one log driver. It has no state.
type format interface {
	// decode takes the record at the start of data and returns its whole length, 0 when data ends before the record
	// does, errTorn when this is no record.
	decode(data []byte, e *entry) (n int, err error)
	// resync returns how many bytes of data to pass over to come to the next whole record, at least 1, or 0 when data
	// holds none. The start of data is not a whole record.
	resync(data []byte) int
	// overtaken reports whether data, which begins with an incomplete record,
	// ends with a whole one: then the incomplete one will never be completed.
	overtaken(data []byte) bool
	// last returns the record that ends at offset, and false when none does.
	last(file io.ReaderAt, offset int64) (entry, bool)
}

// formatOf returns the format of a log driver.
func formatOf(driver string) (format, error) {
	switch driver {
	case DriverLocal:
		return localFormat{}, nil
	case DriverJSONFile:
		return jsonFormat{}, nil
	default:
		return nil, fmt.Errorf("the engine's log driver %q keeps no file that can be followed, use %q or %q: %w",
			driver, DriverLocal, DriverJSONFile, errdefs.ErrNotImplemented)
	}
}

// knownStream returns the stream's name as a constant, so that an entry keeps
// no piece of a buffer alive, and false when there is no such stream.
func knownStream(name []byte) (string, bool) {
	switch string(name) {
	case stdout:
		return stdout, true
	case stderr:
		return stderr, true
	default:
		return "", false
	}
}
