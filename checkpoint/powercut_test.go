package checkpoint

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

// forgetful is the real disk, and records the states that a power cut may leave. A file keeps its content up to its
// last sync and any part of the later content. Any subset of the renames since the directory's last sync may be left.
type forgetful struct {
	dir string
	// files has the present files, durable the files at the directory's last sync, by path.
	files, durable map[string]*content
	pending        []rename
	steps          int
	// after is called after each step. refuse is called before each step, and its error is the step's error.
	after  func(step string)
	refuse func(step int) error
}

// content is a file's content, with the part that was synced.
type content struct{ written, synced []byte }

// rename is a change of a file's name. If from is empty, the file is new. If to is empty, the file is removed.
type rename struct {
	from, to string
	file     *content
}

func newForgetful(dir string) *forgetful {
	return &forgetful{
		dir: dir, files: map[string]*content{}, durable: map[string]*content{},
		after: func(string) {}, refuse: func(int) error { return nil },
	}
}

func (d *forgetful) step(name string, do func() error) error {
	d.steps++
	if err := d.refuse(d.steps); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	d.after(name)
	return nil
}

func (d *forgetful) change(name string, r rename, do func() error) error {
	return d.step(name, func() error {
		if err := do(); err != nil {
			return err
		}
		apply(d.files, r)
		d.pending = append(d.pending, r)
		return nil
	})
}

func apply(files map[string]*content, r rename) {
	if r.from != "" {
		delete(files, r.from)
	}
	if r.to != "" {
		files[r.to] = r.file
	}
}

func (d *forgetful) createTemp(dir string) (tempFile, error) {
	file, err := realDisk{}.createTemp(dir)
	if err != nil {
		return nil, err
	}
	made := &content{}
	err = d.change("create", rename{to: file.Name(), file: made}, func() error { return nil })
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return &forgetfulFile{tempFile: file, disk: d, content: made}, nil
}

func (d *forgetful) rename(from, to string) error {
	return d.change("rename", rename{from: from, to: to, file: d.files[from]}, func() error {
		return os.Rename(from, to)
	})
}

func (d *forgetful) remove(path string) error {
	return d.change("remove", rename{from: path}, func() error { return os.Remove(path) })
}

func (d *forgetful) syncDir(dir string) error {
	return d.step("sync of the directory", func() error {
		d.durable, d.pending = maps.Clone(d.files), nil
		return syncDir(dir)
	})
}

type forgetfulFile struct {
	tempFile
	disk    *forgetful
	content *content
}

func (f *forgetfulFile) Write(p []byte) (n int, err error) {
	err = f.disk.step("write", func() error {
		n, err = f.tempFile.Write(p)
		f.content.written = append(f.content.written, p[:n]...)
		return err
	})
	return n, err
}

func (f *forgetfulFile) Sync() error {
	return f.disk.step("sync", func() error {
		f.content.synced = slices.Clone(f.content.written)
		return f.tempFile.Sync()
	})
}

func (f *forgetfulFile) Close() error { return f.disk.step("close", f.tempFile.Close) }

// cuts calls look with a directory for each state that a power cut now may leave.
func (d *forgetful) cuts(t *testing.T, look func(dir string)) {
	t.Helper()
	for chosen := range 1 << len(d.pending) {
		files := maps.Clone(d.durable)
		for i, r := range d.pending {
			if chosen&(1<<i) != 0 {
				apply(files, r)
			}
		}
		for part := range 3 {
			dir := t.TempDir()
			for path, file := range files {
				unsynced := file.written[len(file.synced):]
				left := append(slices.Clone(file.synced), unsynced[:len(unsynced)*part/2]...)
				mustWrite(t, dir, filepath.Base(path), left)
			}
			look(dir)
		}
	}
}

// workload changes two pods in every way. Before each change it calls begin with the record's Attempt before and after
// the change, 0 for no record. After the change it calls end with the change's error.
func workload(t *testing.T, s *Store, begin func(id string, before, after uint32), end func(error)) {
	t.Helper()
	attempts := map[string]uint32{}
	change := func(id string, to uint32, do func() error) {
		begin(id, attempts[id], to)
		err := do()
		end(err)
		if err == nil {
			attempts[id] = to
		}
	}
	record := func(id string, attempt uint32) Record {
		r := fullRecord(id)
		r.Attempt = attempt
		return r
	}
	save := func(id string, attempt uint32) {
		change(id, attempt, func() error { return s.Save(t.Context(), record(id, attempt)) })
	}
	remove := func(id string) { change(id, 0, func() error { return s.Delete(t.Context(), id) }) }
	save("a", 1)
	save("b", 2)
	change("a", 3, func() error {
		err := s.Update(t.Context(), "a", func(r *Record) error { r.Attempt = 3; return nil })
		if errdefs.IsNotFound(err) { // the disk refused the save of a
			return s.Save(t.Context(), record("a", 3))
		}
		return err
	})
	save("a", 4)
	remove("b")
	save("b", 5)
	remove("a")
}

// TestPowerCutAtEveryStep cuts the power after every step of every change, for each state of the unsynced data. Changes
// that have returned are complete. A change under way is either absent or complete.
func TestPowerCutAtEveryStep(t *testing.T) {
	dir := t.TempDir()
	s, d := mustOpen(t, dir), newForgetful(dir)
	s.disk = d
	possible := map[string][]uint32{} // the attempts that a record may have
	cuts := 0
	d.after = func(step string) {
		d.cuts(t, func(left string) {
			cuts++
			wantPossible(t, fmt.Sprintf("cut after step %d, %s", d.steps, step), left, possible)
		})
	}
	var changed string
	workload(t, s, func(id string, before, after uint32) {
		changed, possible[id] = id, []uint32{before, after}
	}, func(err error) {
		testutil.Must(t, err)
		possible[changed] = possible[changed][1:]
		d.after("the promise")
	})
	testutil.Assert(t, cuts >= 100, "only %d cuts were tried", cuts)
	t.Logf("%d power cuts after %d steps", cuts, d.steps)
}

// wantPossible opens the directory that a power cut left. Each record must be whole and have a possible attempt.
func wantPossible(t *testing.T, when, dir string, possible map[string][]uint32) {
	t.Helper()
	listing, err := mustOpen(t, dir).List(t.Context())
	testutil.Assert(t, err == nil && len(listing.Quarantined) <= 0,
		"%s: quarantined %v, %v", when, listing.Quarantined, err)
	found := map[string]uint32{}
	for _, r := range listing.Records {
		found[r.SandboxID] = r.Attempt
		want := fullRecord(r.SandboxID)
		want.Attempt = r.Attempt
		requireRecord(t, r, want)
	}
	for id, attempts := range possible {
		testutil.Assert(t, slices.Contains(attempts, found[id]),
			"%s: record %s is of attempt %d, want one of %v", when, id, found[id], attempts)
	}
}

// TestDiskThatRefusesAnyStep fails every step of every change once, like a full, read-only or broken disk. The change
// fails, and is absent from memory. On the disk it is absent or complete. Later changes succeed.
func TestDiskThatRefusesAnyStep(t *testing.T) {
	tried := 0
	for refused := 1; ; refused++ {
		dir := t.TempDir()
		s, d := mustOpen(t, dir), newForgetful(dir)
		failure := []error{unix.ENOSPC, unix.EROFS, unix.EIO}[refused%3]
		s.disk = d
		d.refuse = func(step int) error {
			if step == refused {
				return failure
			}
			return nil
		}
		possible := map[string][]uint32{}
		var changed string
		failed := 0
		workload(t, s, func(id string, before, after uint32) {
			changed, possible[id] = id, []uint32{before, after}
		}, func(err error) {
			if err == nil {
				possible[changed] = possible[changed][1:]
			} else {
				failed++
				testutil.Assert(t, errors.Is(err, failure), "step %d refused: %v, want %v", refused, err, failure)
			}
			wantPossible(t, fmt.Sprintf("step %d refused", refused), copyOf(t, dir), possible)
			if got, err := s.Load(t.Context(), changed); got.Attempt != possible[changed][0] ||
				err != nil && !errdefs.IsNotFound(err) {
				t.Errorf("step %d refused: the store says attempt %d, %v, want %d", refused, got.Attempt, err,
					possible[changed][0])
			}
		})
		if d.steps < refused {
			break // the workload has no step with this number
		}
		if tried++; failed != 1 {
			t.Errorf("step %d refused: %d changes failed", refused, failed)
		}
	}
	testutil.Assert(t, tried >= 30, "only %d steps were refused", tried)
	t.Logf("%d steps were refused", tried)
}

// copyOf copies a directory's files to a new directory.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	testutil.Must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}
