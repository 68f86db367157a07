package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/containerd/errdefs"
)

// slot is the place of one sandbox's record in memory.
type slot struct {
	// change is held by whoever reads or changes the file. version is stored only under it, but loaded by anybody.
	change sync.Mutex
	// version is the record as it is on disk, nil when there is none or when the file has not been read yet.
	version atomic.Pointer[version]
	// stale says that a change of the file failed half way: version is what counts, the file may hold something else,
	// and the next write must not be skipped. Guarded by change.
	stale bool

	// users counts the callers of acquire that have not released, guarded by Store.mu.
	users int
}

// version is one state of a record. It never changes.
type version struct {
	record Record
	// file is the hash of the file's content that holds the record.
	file [sha256.Size]byte
}

// peek returns the record in memory, or nil, without waiting for anybody.
func (s *Store) peek(sandboxID string) *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.slots[sandboxID]; sl != nil {
		return sl.version.Load()
	}
	return nil
}

// acquire returns the slot of a sandbox with change held.
func (s *Store) acquire(sandboxID string) *slot {
	s.mu.Lock()
	sl := s.slots[sandboxID]
	if sl == nil {
		sl = &slot{}
		s.slots[sandboxID] = sl
	}
	sl.users++
	s.mu.Unlock()
	sl.change.Lock()
	return sl
}

// release undoes acquire. A slot that says nothing goes with its last user, so that unknown ids cost no memory.
func (s *Store) release(sandboxID string, sl *slot) {
	sl.change.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.users--
	// Without users nobody holds change, so stale can be read here.
	if sl.users == 0 && sl.version.Load() == nil && !sl.stale {
		delete(s.slots, sandboxID)
	}
}

// current returns the slot's record, read from its file on first use; nil when
// there is none. The caller holds sl.change.
func (s *Store) current(ctx context.Context, sandboxID string, sl *slot) (*version, error) {
	if v := sl.version.Load(); v != nil || sl.stale {
		return v, nil
	}
	content, err := os.ReadFile(s.file(sandboxID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoint of sandbox %s: %w", sandboxID, err)
	}
	record, err := decode(content)
	var refused *refusal
	if errors.As(err, &refused) {
		refused.head.SandboxID = sandboxID
		return nil, &refusedError{path: s.file(sandboxID), reason: refused.reason, head: refused.head}
	}
	if err == nil && record.SandboxID != sandboxID {
		err = fmt.Errorf("it is the record of sandbox %q", record.SandboxID)
	}
	if err != nil {
		return nil, s.quarantine(ctx, sandboxID, err)
	}
	v := &version{record: record, file: sha256.Sum256(content)}
	sl.version.Store(v)
	return v, nil
}

// load returns a copy of the slot's record. The caller holds sl.change.
func (s *Store) load(ctx context.Context, sandboxID string, sl *slot) (Record, error) {
	v, err := s.current(ctx, sandboxID, sl)
	if err != nil {
		return Record{}, err
	}
	if v == nil {
		return Record{}, notFound(sandboxID)
	}
	return v.record.clone(), nil
}

// write makes r the slot's record, first on disk and then in memory. The caller
// holds sl.change and has read the current one.
func (s *Store) write(sl *slot, r Record) error {
	raw, err := encodeRecord(r)
	if err != nil {
		return err
	}
	content := wrap(raw)
	next := &version{file: sha256.Sum256(content)}
	if v := sl.version.Load(); v != nil && v.file == next.file && !sl.stale {
		return nil
	}
	// Memory gets what a restart would read, not the caller's own value.
	if next.record, err = decodeRecord(raw); err != nil {
		return fmt.Errorf("the checkpoint of sandbox %s could not be read back: %w: %w", r.SandboxID, err, errdefs.ErrInvalidArgument)
	}
	if err := s.replace(sl, r.SandboxID, content); err != nil {
		return fmt.Errorf("writing the checkpoint of sandbox %s: %w", r.SandboxID, err)
	}
	sl.version.Store(next)
	sl.stale = false
	return nil
}

// replace puts content in the place of a sandbox's file.
func (s *Store) replace(sl *slot, sandboxID string, content []byte) error {
	temp, err := writeTemp(s.disk, s.dir, content)
	if err != nil {
		return err
	}
	if err := s.disk.rename(temp, s.file(sandboxID)); err != nil {
		return errors.Join(err, s.disk.remove(temp))
	}
	if err := s.disk.syncDir(s.dir); err != nil {
		// The new file has its name but may lose it again: neither memory
		// nor the caller may rely on it, and the next Save repairs it.
		sl.stale = true
		return err
	}
	return nil
}

// replaceable returns nil when the file may be replaced or removed: there is none, it is a record that this program
// understands, or it was corrupt and is in the quarantine now. The caller holds sl.change.
func (s *Store) replaceable(ctx context.Context, sandboxID string, sl *slot) error {
	_, err := s.current(ctx, sandboxID, sl)
	if s.isQuarantined(err) {
		return nil
	}
	return err
}

// isQuarantined says whether err reports a corrupt file that has left the
// directory, rather than one that could not be moved.
func (s *Store) isQuarantined(err error) bool {
	var corrupt *corruptError
	return errors.As(err, &corrupt) && corrupt.path != s.file(corrupt.sandboxID)
}
