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
// Memory changes only after the disk write has succeeded. Later calls answer from memory, so each file is read at most
// once. Changes of one record run one at a time. Calls for different records never wait for each other, and Load never
// waits for a disk write. Records are copied in and out, and share no memory with the store.
//
// The contexts of its methods only carry the caller's logger. A write that has begun is finished, because a half-done
// write would have to be undone.
//
// All methods are safe for concurrent use. A directory must have one Store at a time: a second Store would not see
// the first one's memory.
type Store struct {
	dir string
	// disk is realDisk, except in tests.
	disk disk

	mu          sync.Mutex
	slots       map[string]*slot
	quarantined []Quarantined
}

// Open returns the store of dir. It creates the directory (mode 0700) if it is missing, and removes the temporary files
// of a crash. Open reads no records: [Store.List] reads all of them, and other calls read one record on its first use.
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

// Save replaces the record of a sandbox with r. When Save returns nil, the record survives a power cut. A record equal
// to the saved one is not written again. On an error this store keeps the earlier record, and the file has the earlier
// or the new one, whole.
//
// It returns errdefs.ErrInvalidArgument for an id that is not a valid file name and for a config that is not JSON. It
// returns a *refusedError if the file belongs to a newer program. It moves a corrupt file to the quarantine and
// replaces it.
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

// Load returns the record of a sandbox. It returns errdefs.ErrNotFound if there is none. It moves a corrupt file to the
// quarantine and returns a *corruptError once. After that there is no record. A file of a newer program gives a
// *refusedError and stays.
func (s *Store) Load(ctx context.Context, sandboxID string) (Record, error) {
	v, err := s.read(ctx, sandboxID)
	if err != nil {
		return Record{}, err
	}
	return v.record.clone(), nil
}

// LoadContainer returns the record of one container of a sandbox, without a copy of the others. It returns
// errdefs.ErrNotFound if there is none. The other errors are the errors of Load.
func (s *Store) LoadContainer(ctx context.Context, sandboxID, containerID string) (Container, error) {
	v, err := s.read(ctx, sandboxID)
	if err != nil {
		return Container{}, err
	}
	c, ok := v.record.Containers[containerID]
	if !ok {
		return Container{}, fmt.Errorf("the checkpoint of sandbox %s has no container %s: %w", sandboxID, containerID,
			errdefs.ErrNotFound)
	}
	return c.clone(), nil
}

// read returns the record of a sandbox, from memory or, on first use, from the file. Its errors are the errors of Load.
func (s *Store) read(ctx context.Context, sandboxID string) (*version, error) {
	if err := validateID(sandboxID); err != nil {
		return nil, err
	}
	if v := s.peek(sandboxID); v != nil {
		return v, nil
	}
	sl := s.acquire(sandboxID)
	defer s.release(sandboxID, sl)
	return s.load(ctx, sandboxID, sl)
}

// Update changes the record of a sandbox: change gets a copy of it, and Update saves the copy like Save. No other
// change of the same record happens in between. If change fails, Update returns its error wrapped and writes nothing.
//
// change must not call the store for the same sandbox (it would wait for itself), must not keep the pointer, and must
// not change SandboxID (errdefs.ErrInvalidArgument). The other errors are the errors of Load and Save.
func (s *Store) Update(ctx context.Context, sandboxID string, change func(*Record) error) error {
	if err := validateID(sandboxID); err != nil {
		return err
	}
	sl := s.acquire(sandboxID)
	defer s.release(sandboxID, sl)
	v, err := s.load(ctx, sandboxID, sl)
	if err != nil {
		return err
	}
	r := v.record.clone()
	if err := change(&r); err != nil {
		return fmt.Errorf("changing the checkpoint of sandbox %s: %w", sandboxID, err)
	}
	if r.SandboxID != sandboxID {
		return fmt.Errorf("record.sandboxID must not change from %q to %q: %w", sandboxID, r.SandboxID,
			errdefs.ErrInvalidArgument)
	}
	return s.write(sl, r)
}

// Delete removes the record of a sandbox. When it returns nil, the removal survives a power cut. It also succeeds if
// there is no record. It moves a corrupt file to the quarantine. The file of a newer program gives a *refusedError and
// stays. On an error memory keeps the record, and Delete may be called again.
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
	// Even if the file was gone before: the removal of an earlier, failed Delete may not be durable yet.
	if err := s.disk.syncDir(s.dir); err != nil {
		sl.stale = true
		return fmt.Errorf("removing the checkpoint of sandbox %s for good: %w", sandboxID, err)
	}
	sl.version.Store(nil)
	sl.stale = false
	return nil
}

// Listing is the content of a directory. Records and Refused are sorted by sandbox id.
type Listing struct {
	// Records are the records that this program understands.
	Records []Record
	// Refused are the heads of the records of a newer program: SandboxID, the pod's metadata, CreatedAt and Config, as
	// far as they are readable. The rest is empty.
	Refused []Record
	// Quarantined are the corrupt files found since Open.
	Quarantined []Quarantined
}

// List returns every record. Records that earlier calls have read come from memory. err joins a *refusedError or read
// error for each file that was left in place. The listing is valid even then, so that one unreadable file does not
// prevent the recovery of other pods.
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
				log.G(ctx).WithField("file", filepath.Join(s.dir, e.Name())).
					Warn("ignoring file that is not a checkpoint")
			}
			continue
		}
		r, err := s.Load(ctx, id)
		var refused *refusedError
		switch {
		case err == nil:
			found.Records = append(found.Records, r)
		case errdefs.IsNotFound(err):
			// Another goroutine has deleted the record.
		case s.isQuarantined(err):
			// Listing.Quarantined has it.
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
