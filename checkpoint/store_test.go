package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// fullRecord returns a record that uses every field.
func fullRecord(id string) Record {
	return Record{
		SandboxID:      id,
		Name:           "web",
		Namespace:      "default",
		UID:            "6d6a9c11-uid",
		Attempt:        2,
		CreatedAt:      time.Date(2026, 3, 1, 12, 30, 0, 123456789, time.UTC),
		Phase:          PhaseReady,
		NetnsPath:      "/run/netns/cri-" + id,
		UserNamespace:  "/run/criadapter/users/" + id,
		Config:         json.RawMessage(`{"metadata":{"name":"web"},"annotations":{"a":"<b> & \"ü\""}}`),
		RuntimeHandler: "runc",
		Runtime:        "runc",
		Cgroup:         &Cgroup{Driver: "cgroupfs", Parent: "/pod1"},
		Namespaces:     &Namespaces{Dir: "/run/p", IPC: "/run/p/ipc", UTS: "/run/p/uts", Shm: "/run/p/shm"},
		Network: &Network{
			Config: "bridge",
			IPs:    []string{"10.88.0.4", "fd00::4"},
			Result: json.RawMessage(`{"cniVersion":"1.0.0","ips":[]}`),
		},
		Containers: map[string]Container{
			"c1": {
				Config:   json.RawMessage(`{"metadata":{"name":"nginx"}}`),
				Restore:  "restore",
				ImageRef: "nginx@sha256:0000000000000000000000000000000000000000000000000000000000000000",
				LogPosition: LogPosition{Inode: 7, Offset: 1 << 40, Time: 1 << 59, Born: 1 << 60, OutputInode: 8,
					OutputSize: 9},
				User:   &User{UID: 1000, GID: 3000, Groups: []uint32{3000, 5000}},
				OOMRun: time.Date(2026, 3, 1, 12, 31, 0, 987654321, time.UTC),
				End: &End{Name: "k8s_nginx", ImageID: "sha256:0",
					CreatedAt: time.Date(2026, 3, 1, 12, 30, 9, 1, time.UTC),
					LogPath:   "/var/log/pods/web/nginx/0.log", LogDriver: "local", EngineLogPath: "/var/lib/c1.log",
					User: "1000", StopSignal: "SIGTERM", CgroupParent: "/pod1", OOMScore: 900, UpperDir: "/var/lib/c1",
					StartedAt:  time.Date(2026, 3, 1, 12, 31, 0, 987654321, time.UTC),
					FinishedAt: time.Date(2026, 3, 1, 12, 32, 0, 1, time.UTC), ExitCode: 137, OOMKilled: true,
					Error: "no such file"},
			},
			"c2": {Config: json.RawMessage(`{}`)},
		},
		Paused:         []string{"c1"},
		CheckpointDirs: []string{"/var/lib/kubelet/checkpoints/.checkpoint-1"},
	}
}

func mustOpen(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	testutil.Must(t, err)
	return s
}

func mustSave(t testing.TB, s *Store, r Record) {
	t.Helper()
	testutil.Must(t, s.Save(t.Context(), r), "Save")
}

func mustLoad(t *testing.T, s *Store, id string) Record {
	t.Helper()
	r, err := s.Load(t.Context(), id)
	testutil.Require(t, err == nil, "Load: %v", err)
	return r
}

func requireRecord(t *testing.T, got, want Record) {
	t.Helper()
	testutil.Require(t, reflect.DeepEqual(got, want), "record is\n%+v\nwant\n%+v", got, want)
}

func requireNotFound(t *testing.T, s *Store, id string) {
	t.Helper()
	r, err := s.Load(t.Context(), id)
	testutil.Require(t, errdefs.IsNotFound(err), "Load returned %+v, %v; want NotFound", r, err)
}

// requireFiles checks the names of the directory's files, without subdirectories.
func requireFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testutil.Must(t, err)
	var got []string
	for _, e := range entries {
		if !e.IsDir() {
			got = append(got, e.Name())
		}
	}
	testutil.Require(t, slices.Equal(got, want), "the directory holds %q, want %q", got, want)
}

func TestRecordSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	want := fullRecord("abc123")
	s := mustOpen(t, dir)
	mustSave(t, s, want)
	requireRecord(t, mustLoad(t, s, "abc123"), want)
	requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc123"), want)
}

// Load returns the same record from memory as it returns from the file after a restart.
func TestMemoryHoldsWhatARestartWouldRead(t *testing.T) {
	tests := map[string]Record{
		"spaced config":     {SandboxID: "x", Config: json.RawMessage("{ \"a\" :\n[ 1 ] }")},
		"empty collections": {SandboxID: "x", Network: &Network{IPs: []string{}}, Containers: map[string]Container{}},
		"no config":         {SandboxID: "x", Containers: map[string]Container{"c": {}}},
		"invalid UTF-8":     {SandboxID: "x", Name: "a\xffb"},
	}
	for name, r := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := mustOpen(t, dir)
			mustSave(t, s, r)
			requireRecord(t, mustLoad(t, mustOpen(t, dir), "x"), mustLoad(t, s, "x"))
		})
	}
}

func TestFileIsReadableAndPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "checkpoints")
	s := mustOpen(t, dir)
	mustSave(t, s, fullRecord("abc"))
	requireFiles(t, dir, "abc.json")
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "abc.json"): 0o600} {
		info, err := os.Stat(path)
		testutil.Must(t, err)
		testutil.Equal(t, info.Mode().Perm(), want, "%s has mode", path)
	}
	content, err := os.ReadFile(filepath.Join(dir, "abc.json"))
	testutil.Must(t, err)
	for _, want := range []string{"\n    \"name\": \"web\",\n", `"<b> & \"ü\""`} {
		testutil.Assert(t, strings.Contains(string(content), want), "the file does not show %q:\n%s", want, content)
	}
}

func TestOpenClosesAnOpenDir(t *testing.T) {
	dir := t.TempDir()
	testutil.Must(t, os.Chmod(dir, 0o755))
	mustOpen(t, dir)
	info, err := os.Stat(dir)
	testutil.Must(t, err)
	testutil.Equal(t, info.Mode().Perm(), 0o700, "the directory has mode")
}

func TestUnchangedSaveWritesNothing(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustSave(t, s, fullRecord("abc"))
	before := mustStat(t, dir)
	mustSave(t, s, fullRecord("abc"))
	testutil.Must(t, s.Update(t.Context(), "abc", func(*Record) error { return nil }))
	testutil.Assert(t, os.SameFile(before, mustStat(t, dir)), "the file was replaced by an equal one")
	// The same holds after a restart, when the record in memory comes from the file.
	mustSave(t, mustOpen(t, dir), fullRecord("abc"))
	testutil.Assert(t, os.SameFile(before, mustStat(t, dir)), "the file was replaced by an equal one after a restart")
	changed := fullRecord("abc")
	changed.Attempt++
	mustSave(t, s, changed)
	testutil.Assert(t, !os.SameFile(before, mustStat(t, dir)), "a changed record was not written")
}

func mustStat(t *testing.T, dir string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, "abc.json"))
	testutil.Must(t, err)
	return info
}

func TestUpdateReadsNoDisk(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustSave(t, s, fullRecord("abc"))
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "abc.json"), []byte("not read"), 0o600))
	testutil.Must(t, s.Update(t.Context(), "abc", func(r *Record) error { r.Phase = PhaseStopped; return nil }))
	want := fullRecord("abc")
	want.Phase = PhaseStopped
	requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc"), want)
}

func TestUpdateErrors(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustSave(t, s, fullRecord("abc"))
	failure := errors.New("no")
	tests := map[string]struct {
		id     string
		change func(*Record) error
		want   error
	}{
		"change fails":    {"abc", func(r *Record) error { r.Name = "lost"; return failure }, failure},
		"unknown sandbox": {"unknown", func(*Record) error { return nil }, errdefs.ErrNotFound},
		"another sandbox id": {"abc", func(r *Record) error {
			r.SandboxID = "def"
			return nil
		}, errdefs.ErrInvalidArgument},
		"config is not JSON": {"abc", func(r *Record) error {
			r.Config = json.RawMessage("{")
			return nil
		}, errdefs.ErrInvalidArgument},
		"bad id": {"../abc", func(*Record) error { return nil }, errdefs.ErrInvalidArgument},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := s.Update(t.Context(), tt.id, tt.change)
			testutil.Assert(t, errors.Is(err, tt.want), "error is %v, want %v", err, tt.want)
			requireRecord(t, mustLoad(t, s, "abc"), fullRecord("abc"))
			requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc"), fullRecord("abc"))
			requireFiles(t, dir, "abc.json")
		})
	}
}

func TestDeleteIsIdempotent(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	mustSave(t, s, fullRecord("abc"))
	mustSave(t, s, fullRecord("def"))
	for range 2 {
		testutil.Must(t, s.Delete(t.Context(), "abc"))
		requireNotFound(t, s, "abc")
	}
	requireFiles(t, dir, "def.json")
	err := s.Delete(t.Context(), "a/b")
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "Delete of a path returned %v, want InvalidArgument", err)
	mustSave(t, s, fullRecord("abc"))
	requireRecord(t, mustLoad(t, s, "abc"), fullRecord("abc"))
}

func TestListSortsAndIgnoresStrangers(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	for _, id := range []string{"b", "a", "c"} {
		mustSave(t, s, fullRecord(id))
	}
	for _, name := range []string{"README", "no id.json", ".hidden.json"} {
		testutil.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600))
	}
	for name, s := range map[string]*Store{"same store": s, "after a restart": mustOpen(t, dir)} {
		t.Run(name, func(t *testing.T) {
			listing, err := s.List(t.Context())
			testutil.Require(t, err == nil && len(listing.Quarantined) == 0,
				"List returned %v, %v", listing.Quarantined, err)
			if !reflect.DeepEqual(listing.Records, []Record{fullRecord("a"), fullRecord("b"), fullRecord("c")}) {
				t.Errorf("records are %+v", listing.Records)
			}
		})
	}
}

func TestSandboxIDsAreFileNames(t *testing.T) {
	valid := []string{strings.Repeat("0f", 32), "a", "A.b_c-9", strings.Repeat("x", maxIDLength)}
	invalid := []string{"", ".", "..", ".tmp-1", "-x", "_x", "a/b", "../a", "a\\b", "a b", "a\x00", "ä", "a\n",
		strings.Repeat("x", maxIDLength+1)}
	s := mustOpen(t, t.TempDir())
	for _, id := range valid {
		mustSave(t, s, Record{SandboxID: id})
		requireRecord(t, mustLoad(t, s, id), Record{SandboxID: id})
	}
	for _, id := range invalid {
		err := s.Save(t.Context(), Record{SandboxID: id})
		testutil.Assert(t, errdefs.IsInvalidArgument(err),
			"Save of sandbox %q returned %v, want InvalidArgument", id, err)
		if _, err := s.Load(t.Context(), id); !errdefs.IsInvalidArgument(err) {
			t.Errorf("Load of sandbox %q returned %v, want InvalidArgument", id, err)
		}
	}
}

func TestUnknownSandboxesCostNoMemory(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	mustSave(t, s, fullRecord("gone"))
	for i := range 20 {
		requireNotFound(t, s, fmt.Sprint("unknown", i))
	}
	testutil.Must(t, s.Delete(t.Context(), "gone"))
	err := s.Save(t.Context(), Record{SandboxID: "refused", Config: json.RawMessage("{")})
	testutil.Require(t, errdefs.IsInvalidArgument(err), "error is %v, want InvalidArgument", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	testutil.Assert(t, len(s.slots) == 0, "%d sandboxes are still in memory", len(s.slots))
}
