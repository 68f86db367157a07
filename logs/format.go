package logs

import (
	"errors"
	"fmt"
	"io"

	"github.com/containerd/errdefs"
)

// Log drivers of the engine with files that a follower can read.
const (
	DriverLocal    = "local"
	DriverJSONFile = "json-file"
)

// errFormat says that an engine's log file does not have its driver's format.
var errFormat = errors.New("the engine's log file is not in the expected format")

// errTorn says that the bytes are not the beginning of a record.
var errTorn = errors.New("not a log record")

// maxRecord is the largest valid record, in bytes. The engine cuts lines at 16 KiB and refuses to read records above 1
// MB.
const maxRecord = 1_000_000

// format reads the files of one log driver. It has no state.
type format interface {
	// decode reads the record at the start of data and returns its length. It returns 0 if data ends before the record,
	// and errTorn if there is no record.
	decode(data []byte, e *entry) (n int, err error)
	// resync returns the number of bytes before the next whole record, at least 1, or 0 if data has none. The start of
	// data is not a whole record.
	resync(data []byte) int
	// overtaken reports whether data begins with an incomplete record and ends with a whole one. Then the incomplete
	// record will never be completed.
	overtaken(data []byte) bool
	// last returns the record that ends at offset, and false if none does.
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

// knownStream returns the stream's name as a constant, so that an entry keeps no buffer alive. It returns false for an
// unknown stream.
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
