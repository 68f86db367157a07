package logs

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/criadapter/criadapter/internal/testutil"
)

// localRecord is how the engine's local driver writes an entry. lastPiece adds the mark of the last piece of a long
// line.
func localRecord(e entry, lastPiece bool) []byte {
	var m []byte
	m = protowire.AppendTag(m, fieldSource, protowire.BytesType)
	m = protowire.AppendString(m, e.stream)
	m = protowire.AppendTag(m, fieldTimeNano, protowire.VarintType)
	m = protowire.AppendVarint(m, uint64(e.unixNano))
	if len(e.line) > 0 {
		m = protowire.AppendTag(m, fieldLine, protowire.BytesType)
		m = protowire.AppendBytes(m, e.line)
	}
	if e.partial || lastPiece {
		m = protowire.AppendTag(m, fieldPartial, protowire.VarintType)
		m = protowire.AppendVarint(m, 1)
		var meta []byte
		if lastPiece {
			meta = protowire.AppendTag(meta, fieldLast, protowire.VarintType)
			meta = protowire.AppendVarint(meta, 1)
		}
		m = protowire.AppendTag(m, fieldMetadata, protowire.BytesType)
		m = protowire.AppendBytes(m, meta)
	}
	return frame(m)
}

func frame(message []byte) []byte {
	size := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	return append(append(append([]byte{}, size...), message...), size...)
}

func jsonLine(e entry) []byte {
	text := string(e.line)
	if !e.partial {
		text += "\n"
	}
	b, err := json.Marshal(map[string]any{"log": text, "stream": e.stream, "time": time.Unix(0, e.unixNano).UTC()})
	if err != nil {
		panic(err)
	}
	// The engine's encoder writes the field "log" first, as json.Marshal does for a map.
	return append(b, '\n')
}

func out(line string) entry {
	return entry{unixNano: 1_700_000_000_000_000_001, stream: stdout, line: []byte(line)}
}

func TestDecodeLocal(t *testing.T) {
	whole := localRecord(out("hello"), false)
	piece := out("hel")
	piece.partial = true
	unknownField := protowire.AppendTag(nil, 99, protowire.Fixed64Type)
	unknownField = protowire.AppendFixed64(unknownField, 7)
	newer := frame(append(bytes.Clone(whole[sizeLen:len(whole)-sizeLen]), unknownField...))
	wrongEnd := bytes.Clone(whole)
	wrongEnd[len(wrongEnd)-1]++
	tests := []struct {
		name string
		data []byte
		n    int
		err  error
		want entry
	}{
		{"whole", whole, len(whole), nil, out("hello")},
		{"with another behind it", append(bytes.Clone(whole), whole...), len(whole), nil, out("hello")},
		{"piece", localRecord(piece, false), len(localRecord(piece, false)), nil, piece},
		{"last piece", localRecord(piece, true), len(localRecord(piece, true)), nil, out("hel")},
		{"empty line", localRecord(out(""), false), len(localRecord(out(""), false)), nil, out("")},
		{"unknown field", newer, len(newer), nil, out("hello")},
		{"nothing", nil, 0, nil, entry{}},
		{"size only", whole[:sizeLen], 0, nil, entry{}},
		{"cut in the message", whole[:len(whole)-sizeLen-1], 0, nil, entry{}},
		{"cut in the second size", whole[:len(whole)-1], 0, nil, entry{}},
		{"sizes differ", wrongEnd, 0, errTorn, entry{}},
		{"no message", frame(nil), 0, errTorn, entry{}},
		{"too large", []byte{0xff, 0, 0, 0, 1}, 0, errTorn, entry{}},
		{"text", []byte("just some text in a file"), 0, errTorn, entry{}},
		{"not a LogEntry", frame([]byte{0x0a, 0x7f, 0x00}), 0, errTorn, entry{}},
		{"unknown stream",
			frame(protowire.AppendString(protowire.AppendTag(nil, fieldSource, protowire.BytesType), "stdlog")), 0,
			errTorn, entry{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkDecode(t, localFormat{}, tt.data, tt.n, tt.err, tt.want) })
	}
}

func TestDecodeJSON(t *testing.T) {
	piece := out("hel")
	piece.partial = true
	whole := jsonLine(out("hello"))
	attributes := []byte(`{"log":"a\n","attrs":{"x":"y"},"stream":"stdout","time":"2023-11-14T22:13:20.000000001Z"}` + "\n")
	tests := []struct {
		name string
		data []byte
		n    int
		err  error
		want entry
	}{
		{"whole", whole, len(whole), nil, out("hello")},
		{"piece", jsonLine(piece), len(jsonLine(piece)), nil, piece},
		{"empty line", jsonLine(out("")), len(jsonLine(out(""))), nil, out("")},
		{"attributes", attributes, len(attributes), nil, out("a")},
		{"nothing", nil, 0, nil, entry{}},
		{"cut", whole[:len(whole)-1], 0, nil, entry{}},
		{"no JSON", []byte("hello\n"), 0, errTorn, entry{}},
		{"no stream", []byte(`{"log":"a\n","time":"2023-11-14T22:13:20.000000001Z"}` + "\n"), 0, errTorn, entry{}},
		{"no time", []byte(`{"log":"a\n","stream":"stdout"}` + "\n"), 0, errTorn, entry{}},
		{"endless", bytes.Repeat([]byte("x"), maxRecord+1), 0, errTorn, entry{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkDecode(t, jsonFormat{}, tt.data, tt.n, tt.err, tt.want) })
	}
}

func checkDecode(t *testing.T, f format, data []byte, n int, wantErr error, want entry) {
	t.Helper()
	var e entry
	got, err := f.decode(data, &e)
	testutil.Require(t, got == n && errors.Is(err, wantErr), "decode = %d, %v; want %d, %v", got, err, n, wantErr)
	if n == 0 {
		return
	}
	testutil.Assert(t, e.unixNano == want.unixNano && e.stream == want.stream && e.partial == want.partial &&
		bytes.Equal(e.line, want.line), "entry is %+v, want %+v", e, want)
}

// onEachFormat runs a test with a record of each format.
func onEachFormat(t *testing.T, line string, test func(t *testing.T, f format, record []byte)) {
	t.Helper()
	t.Run(DriverLocal, func(t *testing.T) { test(t, localFormat{}, localRecord(out(line), false)) })
	t.Run(DriverJSONFile, func(t *testing.T) { test(t, jsonFormat{}, jsonLine(out(line))) })
}

// A record that the engine's death cut short is followed directly by the next.
func TestResync(t *testing.T) {
	onEachFormat(t, "a line of some length", func(t *testing.T, f format, record []byte) {
		for cut := 1; cut < len(record); cut++ {
			data := append(bytes.Clone(record[:cut]), record...)
			testutil.Equal(t, f.resync(data), cut, "cut after %d bytes: resync", cut)
			testutil.Equal(t, f.resync(record[:cut]), 0, "only %d bytes of a record: resync", cut)
		}
	})
}

func TestLast(t *testing.T) {
	onEachFormat(t, "hello", func(t *testing.T, f format, record []byte) {
		data := bytes.Repeat(record, 3)
		for offset := 1; offset <= len(data)+5; offset++ {
			want := offset%len(record) == 0 && offset <= len(data)
			e, ok := f.last(bytes.NewReader(data), int64(offset))
			testutil.Assert(t, ok == want, "last(%d) = %t, want %t", offset, ok, want)
			if ok {
				testutil.Equal(t, string(e.line), "hello", "last(%d)", offset)
			}
		}
	})
}

func TestFormatOf(t *testing.T) {
	for _, driver := range []string{"", "none", "journald"} {
		_, err := formatOf(driver)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), driver),
			"formatOf(%q) error is %v, want one that names the driver", driver, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"docker-20.10-local-tty.log", "docker-20.10-json-file-tty.log"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		testutil.Must(f, err)
		f.Add(content)
	}
	f.Add(localRecord(out(""), false))
	f.Add(append(localRecord(out("torn"), false)[:9], localRecord(out("b"), false)...))
	f.Add([]byte(`{"log":"x{"log":"a\n","stream":"stdout","time":"2023-11-14T22:13:20Z"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []format{localFormat{}, jsonFormat{}} {
			var e entry
			n, err := format.decode(data, &e)
			testutil.Require(t, n >= 0 && n <= len(data) && (err == nil || n == 0),
				"%T: decode = %d, %v of %d bytes", format, n, err, len(data))
			if n > 0 {
				testutil.Require(t, e.stream == stdout || e.stream == stderr, "%T: stream %q", format, e.stream)
				if text := e.appendCRI(nil); text[len(text)-1] != '\n' {
					t.Fatalf("%T: entry %q is not whole", format, text)
				}
				text := e.appendCRI(nil)
				last, ok := format.last(bytes.NewReader(data), int64(n))
				if !ok || !bytes.Equal(last.appendCRI(nil), text) {
					t.Fatalf("%T: the record of %d bytes reads %q forwards and %q, %t backwards", format, n, text,
						last.appendCRI(nil), ok)
				}
			}
			skip := format.resync(data)
			testutil.Require(t, skip >= 0 && skip <= len(data), "%T: resync = %d of %d bytes", format, skip, len(data))
			if skip > 0 {
				if n, err := format.decode(data[skip:], &e); n == 0 || err != nil {
					t.Fatalf("%T: resync = %d is not a record: %d, %v", format, skip, n, err)
				}
			}
		}
	})
}
