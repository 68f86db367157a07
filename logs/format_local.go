package logs

import (
	"encoding/binary"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// localFormat is the file format of the engine's driver "local". It is the same from Docker 20.10 to 29. Each record is
// a protobuf message LogEntry between two copies of its length, 4 bytes big-endian:
//
//	message LogEntry {
//	  string source = 1;
//	  int64 time_nano = 2;
//	  bytes line = 3;
//	  bool partial = 4;
//	  PartialLogEntryMetadata partial_log_metadata = 5;
//	}
//	message PartialLogEntryMetadata { bool last = 1; string id = 2; int32 ordinal = 3; }
type localFormat struct{}

// sizeLen is the length in bytes of the size before and after each message.
const sizeLen = 4

// Field numbers of the two messages.
const (
	fieldSource   protowire.Number = 1
	fieldTimeNano protowire.Number = 2
	fieldLine     protowire.Number = 3
	fieldPartial  protowire.Number = 4
	fieldMetadata protowire.Number = 5
	fieldLast     protowire.Number = 1
)

func (localFormat) decode(data []byte, e *entry) (int, error) {
	if len(data) < sizeLen {
		return 0, nil
	}
	size := binary.BigEndian.Uint32(data)
	if size == 0 || size > maxRecord {
		return 0, errTorn
	}
	end := sizeLen + int(size)
	if len(data) < end+sizeLen {
		return 0, nil
	}
	if binary.BigEndian.Uint32(data[end:]) != size {
		return 0, errTorn
	}
	if !decodeLogEntry(data[sizeLen:end], e) {
		return 0, errTorn
	}
	return end + sizeLen, nil
}

func (f localFormat) resync(data []byte) int {
	var e entry
	for i := 1; i+2*sizeLen < len(data); i++ {
		if n, err := f.decode(data[i:], &e); err == nil && n > 0 {
			return i
		}
	}
	return 0
}

func (f localFormat) overtaken(data []byte) bool {
	if len(data) < 2*sizeLen {
		return false
	}
	size := int(binary.BigEndian.Uint32(data[len(data)-sizeLen:]))
	start := len(data) - size - 2*sizeLen
	if size > maxRecord || start <= 0 {
		return false
	}
	var e entry
	n, err := f.decode(data[start:], &e)
	return err == nil && start+n == len(data)
}

func (f localFormat) last(file io.ReaderAt, offset int64) (entry, bool) {
	var size [sizeLen]byte
	if _, err := file.ReadAt(size[:], offset-sizeLen); err != nil {
		return entry{}, false
	}
	n := int64(binary.BigEndian.Uint32(size[:])) + 2*sizeLen
	if n > offset || n > maxRecord+2*sizeLen {
		return entry{}, false
	}
	record := make([]byte, n)
	if _, err := file.ReadAt(record, offset-n); err != nil {
		return entry{}, false
	}
	var e entry
	got, err := f.decode(record, &e)
	return e, err == nil && int64(got) == n
}

// decodeLogEntry reports whether message is a LogEntry and decodes it into e. e.line points into message. Unknown
// fields are ignored.
func decodeLogEntry(message []byte, e *entry) bool {
	*e = entry{}
	var last bool
	ok := fields(message, func(number protowire.Number, value wireValue) bool {
		known := true
		switch number {
		case fieldSource:
			e.stream, known = knownStream(value.bytes)
		case fieldTimeNano:
			e.unixNano = int64(value.varint)
		case fieldLine:
			e.line = value.bytes
		case fieldPartial:
			e.partial = value.varint != 0
		case fieldMetadata:
			known = fields(value.bytes, func(number protowire.Number, value wireValue) bool {
				if number == fieldLast {
					last = value.varint != 0
				}
				return true
			})
		}
		return known
	})
	if last {
		e.partial = false
	}
	return ok && e.stream != ""
}

// wireValue is the value of one protobuf field. The field's wire type decides which part is set.
type wireValue struct {
	varint uint64
	bytes  []byte
}

// fields calls visit for each field of a protobuf message. It reports whether message is well formed and visit always
// returned true.
func fields(message []byte, visit func(protowire.Number, wireValue) bool) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		message = message[n:]
		var value wireValue
		switch kind {
		case protowire.VarintType:
			value.varint, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			value.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 || !visit(number, value) {
			return false
		}
		message = message[n:]
	}
	return true
}
