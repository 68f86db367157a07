package checkpoint

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// FuzzDecode checks that no file makes the decoder panic. A record that it accepts can be written. Reading the new file
// and writing it again changes nothing.
func FuzzDecode(f *testing.F) {
	f.Add(fileOf(f, fullRecord("abc")))
	f.Add(fileOf(f, Record{SandboxID: "x"}))
	f.Add(wrap([]byte(`{"sandboxID":"x","config":{"a":[1,2.50,null]}}`)))
	f.Add([]byte(`{"schemaVersion":77,"record":{"name":"x"}}`))
	f.Add([]byte(`{"schemaVersion":1,"checksum":"sha256:","record":null}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := decode(file)
		if err != nil {
			return
		}
		requireStable(t, r)
	})
}

// FuzzDecodeRecord does the same without the checksum, which the fuzzer cannot guess.
func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"sandboxID":"x","network":{"ips":["10.0.0.1"],"result":{}},"containers":{"c":{"config":{}}}}`))
	f.Add([]byte(`{"containers":{"\ud800":{"config":null}},"config":"<&>\u2028"}`))
	f.Add([]byte(`{"createdAt":"2026-03-01T12:30:00.5+01:00"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decodeRecord(raw)
		if err != nil {
			return
		}
		requireStable(t, r)
	})
}

func requireStable(t *testing.T, r Record) {
	t.Helper()
	raw, err := encodeRecord(r)
	testutil.Require(t, err == nil, "the decoded record %+v cannot be encoded: %v", r, err)
	first, err := decode(wrap(raw))
	testutil.Require(t, err == nil, "the file just written is refused: %v", err)
	again, err := encodeRecord(first)
	testutil.Require(t, err == nil && bytes.Equal(raw, again),
		"writing it again gives other bytes (%v):\n%s\n%s", err, raw, again)
	second, err := decode(wrap(again))
	testutil.Require(t, err == nil && reflect.DeepEqual(first, second),
		"reading it again gives another record (%v):\n%+v\n%+v", err, first, second)
}
