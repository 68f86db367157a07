package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fileOf returns the content of r's file.
func fileOf(t testing.TB, r Record) []byte {
	t.Helper()
	raw, err := encodeRecord(r)
	testutil.Must(t, err)
	return wrap(raw)
}

func mustWrite(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	testutil.Must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
}

// A crash at each step of a Save leaves the directory in one of these states.
func TestCrashBetweenTheStepsOfASave(t *testing.T) {
	older, newer := fullRecord("abc"), fullRecord("abc")
	newer.Phase = PhaseStopped
	oldFile, newFile := fileOf(t, older), fileOf(t, newer)
	tests := map[string]struct {
		files map[string][]byte
		want  *Record
	}{
		"before the temporary file": {map[string][]byte{"abc.json": oldFile}, &older},
		"temporary file empty":      {map[string][]byte{"abc.json": oldFile, ".tmp-1": {}}, &older},
		"temporary file half":       {map[string][]byte{"abc.json": oldFile, ".tmp-1": newFile[:50]}, &older},
		"before the rename":         {map[string][]byte{"abc.json": oldFile, ".tmp-1": newFile}, &older},
		"after the rename":          {map[string][]byte{"abc.json": newFile}, &newer},
		"first Save, not renamed":   {map[string][]byte{".tmp-1": newFile}, nil},
		"several crashes":           {map[string][]byte{"abc.json": newFile, ".tmp-1": oldFile, ".tmp-22": {}}, &newer},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range tt.files {
				mustWrite(t, dir, file, content)
			}
			s := mustOpen(t, dir)
			listing, err := s.List(t.Context())
			testutil.Require(t, err == nil && len(listing.Quarantined) == 0,
				"List returned %v, %v", listing.Quarantined, err)
			if tt.want == nil {
				requireFiles(t, dir)
				requireNotFound(t, s, "abc")
				return
			}
			requireFiles(t, dir, "abc.json")
			testutil.Require(t, len(listing.Records) == 1, "List returned %d records, want 1", len(listing.Records))
			requireRecord(t, listing.Records[0], *tt.want)
		})
	}
}

// corruptions are contents with which the file of sandbox abc must go to the quarantine.
func corruptions(t *testing.T) map[string][]byte {
	good := fileOf(t, fullRecord("abc"))
	flipped := bytes.Replace(good, []byte("10.88.0.4"), []byte("10.88.0.5"), 1)
	other := fileOf(t, fullRecord("def"))
	return map[string][]byte{
		"empty":             {},
		"zeros":             make([]byte, len(good)),
		"garbage":           []byte("\x1f\x8b not json"),
		"truncated":         good[:len(good)-3],
		"a byte flipped":    flipped,
		"a space added":     bytes.Replace(good, []byte(`"name": `), []byte(`"name":  `), 1),
		"something after":   append(bytes.Clone(good), "{}"...),
		"another sandbox":   other,
		"null":              []byte("null"),
		"no version":        []byte(`{"checksum":"","record":{}}`),
		"version zero":      withVersion(good, "0"),
		"version as string": withVersion(good, `"1"`),
		"no checksum":       []byte(`{"schemaVersion":1,"record":{"sandboxID":"abc"}}`),
		"no record":         []byte(`{"schemaVersion":1,"checksum":"` + checksum(nil) + `"}`),
		"record of a list":  wrap([]byte(`[]`)),
		"wrong field type":  wrap([]byte(`{"sandboxID":"abc","attempt":"x"}`)),
	}
}

func TestCorruptFilesAreQuarantined(t *testing.T) {
	for name, content := range corruptions(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, dir, "abc.json", content)
			mustWrite(t, dir, "zzz.json", fileOf(t, fullRecord("zzz")))
			s := mustOpen(t, dir)

			_, err := s.Load(t.Context(), "abc")
			var corrupt *corruptError
			testutil.Require(t, errors.As(err, &corrupt) && errdefs.IsDataLoss(err),
				"error is %v, want a *corruptError that is DataLoss", err)
			testutil.Holds(t, corrupt.path, string(content), "the quarantine")
			testutil.Assert(t, filepath.Dir(corrupt.path) == filepath.Join(dir, "quarantine"),
				"the file is now %s", corrupt.path)
			requireFiles(t, dir, "zzz.json")
			requireNotFound(t, s, "abc")

			listing, err := s.List(t.Context())
			testutil.Require(t, err == nil && len(listing.Records) == 1 && len(listing.Quarantined) == 1,
				"List returned %+v, %+v, %v", listing.Records, listing.Quarantined, err)
			q := listing.Quarantined[0]
			testutil.Assert(t, q.SandboxID == "abc" && q.Path == corrupt.path && q.Reason != nil,
				"the report is %+v", q)
		})
	}
}

func TestEveryTruncationIsCorrupt(t *testing.T) {
	good := bytes.TrimSpace(fileOf(t, fullRecord("abc")))
	for n := range len(good) {
		r, err := decode(good[:n])
		testutil.Require(t, err != nil, "the first %d of %d bytes decode to %+v", n, len(good), r)
	}
}

// The error names the checksum of the bytes in the file, so that an operator can repair the file by hand.
func TestHandRepair(t *testing.T) {
	dir := t.TempDir()
	content := bytes.Replace(fileOf(t, fullRecord("abc")), []byte("10.88.0.4"), []byte("10.88.0.5"), 1)
	mustWrite(t, dir, "abc.json", content)
	_, err := mustOpen(t, dir).Load(t.Context(), "abc")
	testutil.Require(t, err != nil, "the edited file was accepted")
	_, right, found := strings.Cut(err.Error(), "the record's bytes have ")
	testutil.Require(t, found, "the message names no checksum: %v", err)
	wrong := checksum([]byte(mustEncode(t, fullRecord("abc"))))
	mustWrite(t, dir, "abc.json", bytes.Replace(content, []byte(wrong), []byte(right), 1))
	want := fullRecord("abc")
	want.Network.IPs[0] = "10.88.0.5"
	requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc"), want)
}

func mustEncode(t *testing.T, r Record) []byte {
	t.Helper()
	raw, err := encodeRecord(r)
	testutil.Must(t, err)
	return raw
}

func TestSaveAndDeleteQuarantineACorruptFile(t *testing.T) {
	for name, act := range map[string]func(*Store) error{
		"Save":   func(s *Store) error { return s.Save(t.Context(), fullRecord("abc")) },
		"Delete": func(s *Store) error { return s.Delete(t.Context(), "abc") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mustWrite(t, dir, "abc.json", []byte("rubbish"))
			s := mustOpen(t, dir)
			testutil.Must(t, act(s))
			listing, err := s.List(t.Context())
			testutil.Require(t, err == nil && len(listing.Quarantined) == 1,
				"List reports %+v, %v; want one quarantined file", listing.Quarantined, err)
			testutil.Holds(t, listing.Quarantined[0].Path, "rubbish", "the quarantine")
		})
	}
}

// A corrupt file that cannot be moved is neither overwritten nor dropped.
func TestCorruptFileThatCannotBeMovedStays(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir, "abc.json", []byte("rubbish"))
	mustWrite(t, dir, "quarantine", []byte("a file in the directory's place"))
	s := mustOpen(t, dir)
	_, err := s.Load(t.Context(), "abc")
	for name, err := range map[string]error{"Load": err, "Save": s.Save(t.Context(), fullRecord("abc")),
		"Delete": s.Delete(t.Context(), "abc")} {
		var corrupt *corruptError
		testutil.Assert(t, errors.As(err, &corrupt) && corrupt.path == filepath.Join(dir, "abc.json"),
			"%s returned %v, want a *corruptError with the file's old path", name, err)
	}
	if listing, err := s.List(t.Context()); len(listing.Records) != 0 || len(listing.Quarantined) != 0 ||
		!errdefs.IsDataLoss(err) {
		t.Errorf("List returned %+v, %+v, %v", listing.Records, listing.Quarantined, err)
	}
	testutil.Holds(t, filepath.Join(dir, "abc.json"), "rubbish")
}

func TestTwoCorruptFilesOfOneSandboxAreBothKept(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	paths := map[string]bool{}
	for i := range 3 {
		mustWrite(t, dir, "abc.json", fmt.Appendf(nil, "rubbish %d", i))
		var corrupt *corruptError
		_, err := s.Load(t.Context(), "abc")
		testutil.Require(t, errors.As(err, &corrupt), "error is %v, want a *corruptError", err)
		paths[corrupt.path] = true
	}
	testutil.Assert(t, len(paths) == 3, "the quarantine has %v, want three files", paths)
}

// syncing is the real disk with another syncDir.
type syncing func(dir string) error

func (syncing) createTemp(dir string) (tempFile, error) { return realDisk{}.createTemp(dir) }
func (syncing) rename(from, to string) error            { return realDisk{}.rename(from, to) }
func (syncing) remove(path string) error                { return realDisk{}.remove(path) }
func (f syncing) syncDir(dir string) error              { return f(dir) }

// If the last step fails, the state on disk is uncertain. The store keeps its earlier answer.
func TestFailedDirSync(t *testing.T) {
	failure := errors.New("no sync")
	older, newer := fullRecord("abc"), fullRecord("abc")
	newer.Phase = PhaseStopped
	newStore := func(t *testing.T, records ...Record) *Store {
		s := mustOpen(t, t.TempDir())
		for _, r := range records {
			mustSave(t, s, r)
		}
		s.disk = syncing(func(string) error { return failure })
		return s
	}
	t.Run("Save over a record", func(t *testing.T) {
		s := newStore(t, older)
		err := s.Save(t.Context(), newer)
		testutil.Require(t, errors.Is(err, failure), "error is %v", err)
		requireRecord(t, mustLoad(t, s, "abc"), older)
		// The record in memory equals this one, but the file may have the newer record. So Save must write the file.
		s.disk = realDisk{}
		mustSave(t, s, older)
		requireRecord(t, mustLoad(t, mustOpen(t, s.dir), "abc"), older)
	})
	t.Run("first Save", func(t *testing.T) {
		s := newStore(t)
		err := s.Save(t.Context(), newer)
		testutil.Require(t, errors.Is(err, failure), "error is %v", err)
		requireNotFound(t, s, "abc")
		s.disk = realDisk{}
		testutil.Must(t, s.Delete(t.Context(), "abc"))
		requireFiles(t, s.dir)
	})
	t.Run("Delete", func(t *testing.T) {
		s := newStore(t, older)
		err := s.Delete(t.Context(), "abc")
		testutil.Require(t, errors.Is(err, failure), "error is %v", err)
		requireRecord(t, mustLoad(t, s, "abc"), older)
		s.disk = realDisk{}
		testutil.Must(t, s.Delete(t.Context(), "abc"))
		requireNotFound(t, s, "abc")
	})
}

// The directory is synced when the file has its final name and content.
func TestDirIsSyncedLast(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	var synced int
	s.disk = syncing(func(synchronised string) error {
		synced++
		testutil.Assert(t, synchronised == dir, "%s was synced, want %s", synchronised, dir)
		requireFiles(t, dir, "abc.json")
		testutil.Holds(t, filepath.Join(dir, "abc.json"), string(fileOf(t, fullRecord("abc"))), "at the sync")
		return nil
	})
	mustSave(t, s, fullRecord("abc"))
	testutil.Assert(t, synced == 1, "the directory was synced %d times, want once", synced)
}
