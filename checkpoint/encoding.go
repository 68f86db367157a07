package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
)

// envelope is a record's file. Record stays raw, because the checksum covers its exact bytes.
type envelope struct {
	SchemaVersion int             `json:"schemaVersion"`
	Checksum      string          `json:"checksum"`
	Record        json.RawMessage `json:"record"`
}

// refusal is decode's error for a valid record that another version of this program wrote. This version could not write
// it back without losing a part.
type refusal struct {
	reason string
	// head is the part that every schema has at the same place, as far as it is readable.
	head Record
}

// Error implements error.
func (r *refusal) Error() string { return r.reason }

// encodeRecord returns r as indented JSON, nested one level deep. Equal records give equal bytes. It does not escape
// HTML characters. A config that is not JSON gives errdefs.ErrInvalidArgument.
func encodeRecord(r Record) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, fmt.Errorf("the record of sandbox %s is not JSON: %w: %w", r.SandboxID, err,
			errdefs.ErrInvalidArgument)
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// wrap returns the file's content for an encoded record.
func wrap(record []byte) []byte {
	var file bytes.Buffer
	fmt.Fprintf(&file, "{\n  \"schemaVersion\": %d,\n  \"checksum\": %q,\n  \"record\": %s\n}\n",
		schemaVersion, checksum(record), record)
	return file.Bytes()
}

// decode returns the record in a file's content. It returns a *refusal for the record of a newer program, and another
// error for a corrupt file. JSON parts of the record (configs, CNI result) are compact.
func decode(file []byte) (Record, error) {
	// The version is read first and alone, because a newer program may have changed the rest of the envelope.
	var version struct {
		SchemaVersion int `json:"schemaVersion"`
	}
	if err := json.Unmarshal(file, &version); err != nil {
		return Record{}, fmt.Errorf("not a checkpoint file: %w", err)
	}
	var env envelope
	err := json.Unmarshal(file, &env)
	switch v := version.SchemaVersion; {
	case v > schemaVersion:
		return Record{}, &refusal{
			reason: fmt.Sprintf("has schema version %d and this program knows up to %d", v, schemaVersion),
			head:   decodeHead(env.Record),
		}
	case v < 1:
		return Record{}, fmt.Errorf("schema version %d does not exist", v)
	}
	if err != nil {
		return Record{}, fmt.Errorf("not a checkpoint file: %w", err)
	}
	if len(env.Record) == 0 {
		return Record{}, errors.New("the record is missing")
	}
	if sum := checksum(env.Record); sum != env.Checksum {
		return Record{}, fmt.Errorf("the checksum says %q, the record's bytes have %s", env.Checksum, sum)
	}
	return decodeRecord(env.Record)
}

// decodeOf is decode for the file of a sandbox. Another sandbox's record counts as corrupt.
func decodeOf(sandboxID string, file []byte) (Record, error) {
	record, err := decode(file)
	if err == nil && record.SandboxID != sandboxID {
		err = fmt.Errorf("it is the record of sandbox %q", record.SandboxID)
	}
	return record, err
}

// decodeRecord reads a record's JSON. It first compacts the JSON, so that a config from the file equals the same config
// in memory. A field that Record does not have is a *refusal, because the next write would drop it.
func decodeRecord(raw []byte) (Record, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Record{}, fmt.Errorf("the record is not JSON: %w", err)
	}
	var r Record
	strict := json.NewDecoder(bytes.NewReader(compact.Bytes()))
	strict.DisallowUnknownFields()
	unknown := strict.Decode(&r)
	if unknown == nil {
		return r, nil
	}
	var known Record
	if err := json.Unmarshal(compact.Bytes(), &known); err != nil {
		return Record{}, fmt.Errorf("the record does not have the layout of schema version %d: %w", schemaVersion, err)
	}
	return Record{}, &refusal{
		reason: fmt.Sprintf("has a field that schema version %d does not have (%v)", schemaVersion, unknown),
		head:   headOf(known),
	}
}

// decodeHead reads the head of a newer program's record. Unreadable fields stay empty.
func decodeHead(raw []byte) Record {
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return Record{}
	}
	var head Record
	_ = json.Unmarshal(compact.Bytes(), &head) // a field whose type has changed stays empty
	return headOf(head)
}

// headOf returns the fields of r that every schema has, which are enough to show the pod.
func headOf(r Record) Record {
	return Record{
		SandboxID: r.SandboxID, Name: r.Name, Namespace: r.Namespace, UID: r.UID, Attempt: r.Attempt,
		CreatedAt: r.CreatedAt, Config: r.Config,
	}
}

// checksum returns the checksum of a record's bytes as in the file.
func checksum(record []byte) string {
	sum := sha256.Sum256(record)
	return "sha256:" + hex.EncodeToString(sum[:])
}
