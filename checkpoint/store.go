package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
)

// Store keeps the records of one directory, on disk and in memory.
//
// Memory changes only after the disk write has succeeded and is what every later call answers from: each file is read
// at most once. Calls that change one record run one at a time, calls for different records never wait for each other,
// and Load never waits for a disk write. Records that go in and come out are copies that share no memory with the
// store.
//
// The contexts of its methods carry the caller's logger and nothing else: a write
// that has begun is finished, for half of one would have to be undone.
//
// All methods are safe for concurrent use. A directory must have one Store at a
// time: another one would not see what this one keeps in memory.
type Store struct {
	dir string
	// disk is the real one; tests take others.
	disk disk

	mu          sync.Mutex
	slots       map[string]*slot
	quarantined []Quarantined
}

// Open returns the store of dir. It makes the directory (mode 0700) when it is missing and removes the temporary files
// that a crash left there; the records are read by [Store.List], or one at a time on first use.
func Open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint directory: %w", err)
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("making the checkpoint directory %s: %w", dir, err)
	}
	if err := sweep(dir); err != nil {
		return nil, fmt.Errorf("removing left-over temporary files from the checkpoint directory %s: %w", dir, err)
	}
	return &Store{dir: dir, disk: realDisk{}, slots: make(map[string]*slot)}, nil
}

// Save writes r, in place of an earlier record of the same sandbox. When Save returns nil the record survives a power
// cut; a record equal to the saved one is not written again. On an error this store keeps answering with the earlier
// record; the file holds the earlier or the new one, whole.
//
// It returns errdefs.ErrInvalidArgument for an id that cannot be a file name and for a config that is not JSON, and a
// *refusedError rather than replacing the file of a newer program. A corrupt file in its place is quarantined and
// replaced.
func (s *Store) Save(ctx context.Context, r Record) error {
	if err := validateID(r.SandboxID); err != nil {
		return err
	}
	sl := s.acquire(r.SandboxID)
	defer s.release(r.SandboxID, sl)
	if err := s.replaceable(ctx, r.SandboxID, sl); err != nil {
		return err
	}
	return s.write(sl, r)
}

// Load returns the record of a sandbox, and errdefs.ErrNotFound when there is
// none. A file that turns out to be corrupt is quarantined and reported as a
// *corruptError, once: after that there is no record. A file of a newer program
// gives a *refusedError and stays where it is.
func (s *Store) Load(ctx context.Context, sandboxID string) (Record, error) {
	if err := validateID(sandboxID); err != nil {
		return Record{}, err
	}
	if v := s.peek(sandboxID); v != nil {
		return v.record.clone(), nil
	}
	sl := s.acquire(sandboxID)
	defer s.release(sandboxID, sl)
	return s.load(ctx, sandboxID, sl)
}

// Update changes the record of a sandbox: change gets a copy of it, and what change leaves in the copy is saved as by
// Save. No other change of the same record happens in between. An error of change is returned wrapped and nothing is
// written.
//
// change must not call the store for the same sandbox (it would wait for itself), must not keep the pointer, and must
// not change SandboxID (errdefs.ErrInvalidArgument). The other errors are those of Load and Save.
func (s *Store) Update(ctx context.Context, sandboxID string, change func(*Record) error) error {
	if err := validateID(sandboxID); err != nil {
		return err
	}
	sl := s.acquire(sandboxID)
	defer s.release(sandboxID, sl)
	r, err := s.load(ctx, sandboxID, sl)
	if err != nil {
		return err
	}
	if err := change(&r); err != nil {
		return fmt.Errorf("changing the checkpoint of sandbox %s: %w", sandboxID, err)
	}
	if r.SandboxID != sandboxID {
		return fmt.Errorf("record.sandboxID must not change from %q to %q: %w", sandboxID, r.SandboxID, errdefs.ErrInvalidArgument)
	}
	return s.write(sl, r)
}

// Delete removes the record of a sandbox. When it returns nil the removal survives a power cut. It is idempotent:
// without a record it succeeds. A corrupt file is quarantined rather than removed; the file of a newer program gives a
// *refusedError and stays. On an error memory keeps the record, and Delete may be called again.
func (s *Store) Delete(ctx context.Context, sandboxID string) error {
	if err := validateID(sandboxID); err != nil {
		return err
	}
	sl := s.acquire(sandboxID)
	defer s.release(sandboxID, sl)
	if err := s.replaceable(ctx, sandboxID, sl); err != nil {
		return err
	}
	if err := s.disk.remove(s.file(sandboxID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the checkpoint of sandbox %s: %w", sandboxID, err)
	}
	// Also when the file was gone before: the removal may be an earlier, failed Delete's that is not durable yet.
	if err := s.disk.syncDir(s.dir); err != nil {
		sl.stale = true
		return fmt.Errorf("removing the checkpoint of sandbox %s for good: %w", sandboxID, err)
	}
	sl.version.Store(nil)
	sl.stale = false
	return nil
}

// Listing is what a directory holds, each list sorted by sandbox id but for Quarantined.
type Listing struct {
	// Records are the records that this program understands.
	Records []Record
	// Refused are the heads of the records of a newer program: SandboxID, the pod's metadata, CreatedAt and Config, as
	// far as they could be read. The rest is empty and must not be guessed.
	Refused []Record
	// Quarantined are the corrupt files found since Open, by this call or an earlier one.
	Quarantined []Quarantined
}

// List reads every record for start-up. err joins a *refusedError or read error for each file that was left in place;
// the listing is valid even then, so that one unreadable file does not keep the other pods from being recovered.
func (s *Store) List(ctx context.Context) (Listing, error) {
	entries, err := os.ReadDir(s.dir) // sorted
	if err != nil {
		return Listing{}, fmt.Errorf("reading the checkpoint directory: %w", err)
	}
	var found Listing
	var errs []error
	for _, e := range entries {
		id, ok := idOfFile(e.Name())
		if !ok {
			if e.Name() != quarantineDir && !strings.HasPrefix(e.Name(), tempPrefix) {
				log.G(ctx).WithField("file", filepath.Join(s.dir, e.Name())).Warn("ignoring file that is not a checkpoint")
			}
			continue
		}
		r, err := s.Load(ctx, id)
		var refused *refusedError
		switch {
		case err == nil:
			found.Records = append(found.Records, r)
		case errdefs.IsNotFound(err):
			// Deleted by another goroutine meanwhile.
		case s.isQuarantined(err):
			// In the list of the quarantine.
		case errors.As(err, &refused):
			found.Refused = append(found.Refused, refused.head)
			errs = append(errs, err)
		default:
			errs = append(errs, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found.Quarantined = slices.Clone(s.quarantined)
	return found, errors.Join(errs...)
}

// file returns the path of a sandbox's record.
func (s *Store) file(sandboxID string) string {
	return filepath.Join(s.dir, sandboxID+fileSuffix)
}
