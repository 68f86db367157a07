package checkpoint

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// mountDisk mounts a file system of 256 KiB on a new directory.
func mountDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		if os.Getuid() != 0 && errors.Is(err, unix.EPERM) {
			t.Skip("needs root to mount a small disk")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testutil.Check(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return dir
}

func TestFullDiskChangesNothing(t *testing.T) {
	dir := mountDisk(t)
	s := mustOpen(t, dir)
	older := fullRecord("abc")
	mustSave(t, s, older)
	big := fullRecord("abc")
	big.Config = json.RawMessage(`"` + strings.Repeat("x", 400<<10) + `"`)
	for name, err := range map[string]error{
		"Save":          s.Save(t.Context(), big),
		"Update":        s.Update(t.Context(), "abc", func(r *Record) error { *r = big; return nil }),
		"Save of a new": s.Save(t.Context(), Record{SandboxID: "new", Config: big.Config}),
	} {
		testutil.Assert(t, errors.Is(err, unix.ENOSPC), "%s returned %v, want ENOSPC", name, err)
	}
	requireRecord(t, mustLoad(t, s, "abc"), older)
	requireNotFound(t, s, "new")
	requireFiles(t, dir, "abc.json")
	requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc"), older)
	// A full disk must not keep pods from being removed.
	testutil.Check(t, s.Delete(t.Context(), "abc"), "Delete on a full disk")
}

func TestReadOnlyDiskChangesNothing(t *testing.T) {
	dir := mountDisk(t)
	s := mustOpen(t, dir)
	older, newer := fullRecord("abc"), fullRecord("abc")
	newer.Phase = PhaseStopped
	mustSave(t, s, older)
	mustWrite(t, dir, "bad.json", []byte("rubbish"))
	testutil.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, badErr := s.Load(t.Context(), "bad")
	for name, err := range map[string]error{
		"Save":                   s.Save(t.Context(), newer),
		"Delete":                 s.Delete(t.Context(), "abc"),
		"Load of a corrupt file": badErr,
	} {
		testutil.Assert(t, errors.Is(err, unix.EROFS), "%s returned %v, want EROFS", name, err)
	}
	requireRecord(t, mustLoad(t, s, "abc"), older)
	// A restarted program can still read the record.
	requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc"), older)
	testutil.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, ""))
	mustSave(t, s, newer)
	requireRecord(t, mustLoad(t, mustOpen(t, dir), "abc"), newer)
}

// saverDir, when set, makes this test binary save records in that directory until it is killed.
const saverDir = "CHECKPOINT_TEST_SAVER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(saverDir); dir != "" {
		if err := saveForEver(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// saveForEver saves one record again and again. It prints the number of each save that has succeeded.
func saveForEver(dir string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	for i := uint32(1); ; i++ {
		r := Record{SandboxID: "abc", Attempt: i, Name: strings.Repeat("n", int(i%977)*16)}
		if err := s.Save(context.Background(), r); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

func TestKilledWhileSaving(t *testing.T) {
	dir := t.TempDir()
	for round := range 10 {
		promised := killSaver(t, dir, time.Duration(round)*3*time.Millisecond)
		s := mustOpen(t, dir)
		listing, err := s.List(t.Context())
		testutil.Require(t, err == nil && len(listing.Quarantined) == 0 && len(listing.Records) == 1,
			"round %d: List returned %d records, %v, %v", round, len(listing.Records), listing.Quarantined, err)
		if got := listing.Records[0].Attempt; got != promised && got != promised+1 {
			t.Fatalf("round %d: save %d is on disk, Save reported %d", round, got, promised)
		}
		requireFiles(t, dir, "abc.json")
	}
}

// killSaver runs a saver, kills it some time after its first save and returns the last number that it printed.
func killSaver(t *testing.T, dir string, after time.Duration) uint32 {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), saverDir+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	testutil.Must(t, err)
	testutil.Must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	var last string
	for lines.Scan() {
		if last == "" {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		last = lines.Text()
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("the saver in %s was not killed: %v %s", filepath.Base(dir), err, stderr.String())
	}
	n, err := strconv.ParseUint(last, 10, 32)
	testutil.Must(t, err)
	return uint32(n)
}
