package machine

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Runs can overlap, and one is killed. The first run saves the values, and only the last one restores them.
func TestStays(t *testing.T) {
	dir := t.TempDir()
	before := make(map[string]string)
	for _, name := range kubeletSysctls {
		value, err := readSysctl(name)
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		before[name] = value
	}
	testutil.Assert(t, len(before) >= 4, "only %v", before)
	var stays []*stay
	for range 3 {
		s, err := enter(t.Context(), dir)
		testutil.Must(t, err)
		stays = append(stays, s)
	}
	kept, err := stays[0].kept()
	testutil.Must(t, err)
	stays[0].users.Close() // killed
	testutil.Must(t, stays[1].leave())
	_, err = os.Stat(kept)
	testutil.Check(t, err, "one run stays, and the values are gone")
	testutil.Must(t, stays[2].leave())
	_, err = os.Stat(kept)
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "the last run has left: %v", err)
	for name, want := range before {
		got, err := readSysctl(name)
		testutil.Assert(t, err == nil && got == want, "%s is %q, %v; want %q", name, got, err, want)
	}
}

// The next run restores the values that a killed run has saved.
func TestValuesOfAKilledRun(t *testing.T) {
	dir := t.TempDir()
	first, err := enter(t.Context(), dir)
	testutil.Must(t, err)
	kept, err := first.kept()
	testutil.Must(t, err)
	first.users.Close() // killed
	const sysctl = "kernel/keys/root_maxkeys"
	value, err := readSysctl(sysctl)
	if err != nil {
		t.Skip(err) // a kernel without keyrings
	}
	if err := os.WriteFile(sysctlPath(sysctl), []byte("999999"), 0o644); err != nil {
		t.Skip(err) // without privileges
	}
	second, err := enter(t.Context(), dir)
	testutil.Must(t, err)
	testutil.Must(t, second.leave())
	got, err := readSysctl(sysctl)
	testutil.Assert(t, err == nil && got == value, "%s is %q, %v; want %q", sysctl, got, err, value)
	_, err = os.Stat(kept)
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "the file of the values: %v", err)
}

// The file of the values stays if one of them cannot be restored.
func TestValuesThatCannotBeRestored(t *testing.T) {
	s, err := enter(t.Context(), t.TempDir())
	testutil.Must(t, err)
	kept, err := s.kept()
	testutil.Must(t, err)
	testutil.WriteFile(t, kept, `{"kernel/no_such_sysctl":"1"}`)
	err = s.leave()
	testutil.Assert(t, errors.Is(err, fs.ErrNotExist), "leave: %v", err)
	_, err = os.Stat(kept)
	testutil.Check(t, err, "the file of the values")
}
