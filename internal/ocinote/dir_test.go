package ocinote

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/internal/testutil"
)

var someID = strings.Repeat("0a", 32)

func TestDir(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "notes"))
	_, err := dir.Load(someID)
	testutil.FailsWith(t, err, fs.ErrNotExist, "before")
	if ids, err := dir.List(); len(ids) > 0 || err != nil {
		t.Errorf("before: %v, %v", ids, err)
	}
	note := Note{Hostname: "a", Process: Process{Groups: &[]uint32{}},
		HugepageLimits: map[string]uint64{"1GB": 1 << 62}}
	for range 2 {
		testutil.Must(t, dir.Save(someID, note))
	}
	if got, err := dir.Load(someID); err != nil || !reflect.DeepEqual(got, note) {
		t.Errorf("got %+v, %v", got, err)
	}
	if ids, err := dir.List(); err != nil || !reflect.DeepEqual(ids, []string{someID}) {
		t.Errorf("listed %v, %v", ids, err)
	}
	stat, err := os.Stat(filepath.Join(string(dir), someID))
	parent, parentErr := os.Stat(string(dir))
	testutil.Assert(t, err == nil && parentErr == nil && stat.Mode().Perm() == 0o600 && parent.Mode().Perm() == 0o700,
		"modes %v and %v", stat.Mode(), parent.Mode())
	for range 2 {
		testutil.Must(t, dir.Remove(someID))
	}
}

func TestUnfinishedNotesAreSwept(t *testing.T) {
	dir := Dir(t.TempDir())
	testutil.Must(t, dir.Save(someID, Note{}))
	old := filepath.Join(string(dir), someID+".new")
	fresh := filepath.Join(string(dir), "runtime.json.new")
	for _, path := range []string{old, fresh} {
		testutil.Must(t, os.WriteFile(path, nil, 0o600))
	}
	past := time.Now().Add(-time.Hour)
	testutil.Must(t, errors.Join(os.Chtimes(old, past, past),
		os.Chtimes(filepath.Join(string(dir), someID), past, past), dir.Sweep(), (dir+"x").Sweep()))
	entries, err := os.ReadDir(string(dir))
	if err != nil || len(entries) != 2 || entries[0].Name() != someID || entries[1].Name() != filepath.Base(fresh) {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// TestTwoSweepers checks that two servers can sweep the same files at once.
func TestTwoSweepers(t *testing.T) {
	dir, past := Dir(t.TempDir()), time.Now().Add(-time.Hour)
	for range 5 {
		for i := range 100 {
			path := filepath.Join(string(dir), strconv.Itoa(i)+unfinishedSuffix)
			testutil.Must(t, os.WriteFile(path, nil, 0o600))
			testutil.Must(t, os.Chtimes(path, past, past))
		}
		var sweepers errgroup.Group
		for range 2 {
			sweepers.Go(dir.Sweep)
		}
		testutil.Must(t, sweepers.Wait())
		entries, err := os.ReadDir(string(dir))
		testutil.Require(t, err == nil && len(entries) == 0, "the directory has %v, %v", entries, err)
	}
}

// TestTwoWriters checks that two writers of one file do not fail, and leave no unfinished file.
func TestTwoWriters(t *testing.T) {
	dir := Dir(t.TempDir())
	var writers errgroup.Group
	for range 2 {
		writers.Go(func() error {
			for range 500 {
				if err := dir.Save(someID, Note{Hostname: "a"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	testutil.Must(t, writers.Wait())
	entries, err := os.ReadDir(string(dir))
	testutil.Assert(t, err == nil && len(entries) == 1, "the directory has %v, %v", entries, err)
}

func TestNamesThatAreNoIDs(t *testing.T) {
	dir := Dir(t.TempDir())
	for _, id := range []string{"", "..", "../" + someID, someID[1:], strings.Repeat("zz", 32), someID + "/x"} {
		err := dir.Save(id, Note{})
		testutil.Assert(t, err != nil, "%q is saved", id)
		if _, err := dir.Load(id); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", id, err)
		}
		testutil.Assert(t, dir.Remove(id) != nil, "%q is removed", id)
	}
}

func TestFilesThatAreNoNotes(t *testing.T) {
	dir := Dir(t.TempDir())
	good, err := encode(Note{Hostname: "a"})
	testutil.Must(t, err)
	for name, c := range map[string]struct{ text, want string }{
		"empty":     {"", "no header"},
		"garbage":   {"garbage\n{}", "no header"},
		"cut":       {string(good[:len(good)-1]), "checksum"},
		"changed":   {strings.Replace(string(good), `"a"`, `"b"`, 1), "checksum"},
		"newer":     {strings.Replace(string(good), `"version":1`, `"version":2`, 1), "has version 2"},
		"too large": {strings.Repeat("x", maxNote+1), "not a note"},
	} {
		testutil.Must(t, os.WriteFile(filepath.Join(string(dir), someID), []byte(c.text), 0o600))
		if _, err := dir.Load(someID); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	testutil.Must(t, errors.Join(dir.Remove(someID), os.Symlink("/etc/hostname", filepath.Join(string(dir), someID))))
	if _, err := dir.Load(someID); err == nil || !strings.Contains(err.Error(), "not a note") {
		t.Errorf("a link: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	text, err := encode(Note{Hostname: "a", Unified: map[string]string{"memory.high": "1"}})
	testutil.Must(f, err)
	f.Add(text)
	f.Add([]byte("{}\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		note, err := decode(text)
		if err != nil {
			return
		}
		again, err := encode(note)
		testutil.Must(t, err)
		if got, err := decode(again); err != nil || !reflect.DeepEqual(got, note) {
			t.Errorf("%+v becomes %+v, %v", note, got, err)
		}
	})
}
