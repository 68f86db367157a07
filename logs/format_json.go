package logs

import (
	"bytes"
	"encoding/json"
	"io"
	"time"
)

// jsonFormat is the format of the driver "json-file": one JSON object per line. The engine replaces bytes that are not
// UTF-8.
type jsonFormat struct{}

// jsonStart is the beginning of every object.
var jsonStart = []byte(`{"log":`)

// jsonRecord is one line of the file. Log ends with a line feed unless the line continues in the next record of its
// stream.
type jsonRecord struct {
	Log    *string   `json:"log"`
	Stream string    `json:"stream"`
	Time   time.Time `json:"time"`
}

func (jsonFormat) decode(data []byte, e *entry) (int, error) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		if len(data) > maxRecord {
			return 0, errTorn
		}
		return 0, nil
	}
	var record jsonRecord
	if err := json.Unmarshal(data[:end], &record); err != nil {
		return 0, errTorn
	}
	stream, known := knownStream([]byte(record.Stream))
	if !known || record.Time.IsZero() {
		return 0, errTorn
	}
	*e = entry{unixNano: record.Time.UnixNano(), stream: stream, partial: true}
	// The engine omits an empty log. Such a record has no line feed, so its line continues.
	if record.Log != nil {
		e.line = []byte(*record.Log)
	}
	if line, whole := bytes.CutSuffix(e.line, []byte{'\n'}); whole {
		e.line, e.partial = line, false
	}
	return end + 1, nil
}

// resync finds an object after a torn one. The engine continues on the same line.
func (f jsonFormat) resync(data []byte) int {
	var e entry
	for i := 1; i < len(data); {
		next := bytes.Index(data[i:], jsonStart)
		if next < 0 {
			return 0
		}
		i += next
		if n, err := f.decode(data[i:], &e); err == nil && n > 0 {
			return i
		}
		i++
	}
	return 0
}

// overtaken is always false: a record is incomplete only without a line feed.
func (jsonFormat) overtaken([]byte) bool { return false }

func (f jsonFormat) last(file io.ReaderAt, offset int64) (entry, bool) {
	window := make([]byte, min(offset, maxRecord))
	if _, err := file.ReadAt(window, offset-int64(len(window))); err != nil {
		return entry{}, false
	}
	body, whole := bytes.CutSuffix(window, []byte{'\n'})
	if !whole {
		return entry{}, false
	}
	record := window[bytes.LastIndexByte(body, '\n')+1:]
	var e entry
	n, err := f.decode(record, &e)
	return e, err == nil && n == len(record)
}
