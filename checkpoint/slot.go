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

// slot has one sandbox's record in memory.
type slot struct {
	// change guards reads and changes of the file. version is stored only while it is held, but may be loaded at any
	// time.
	change sync.Mutex
	// version is the record on disk, nil if there is none or the file has not been read yet.
	version atomic.Pointer[version]
	// stale says that a change of the file failed half way. version is valid, the file may differ, and the next write
	// must not be skipped. change guards it.
	stale bool

	// users is the number of acquire calls without a release. Store.mu guards it.
	users int
}

// version is one state of a record. It is immutable.
type version struct {
	record Record
	// file is the hash of the file's content.
	file [sha256.Size]byte
}

// peek returns the record in memory, or nil. It never waits.
func (s *Store) peek(sandboxID string) *version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.slots[sandboxID]; sl != nil {
		return sl.version.Load()
	}
	return nil
}

// acquire returns the slot of a sandbox with its mutex change locked. release unlocks it.
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

// release undoes acquire. It drops an empty slot after its last user, so that unknown ids cost no memory.
func (s *Store) release(sandboxID string, sl *slot) {
	sl.change.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.users--
	// Without users, change is not held, so stale can be read here.
	if sl.users == 0 && sl.version.Load() == nil && !sl.stale {
		delete(s.slots, sandboxID)
	}
}

// current returns the slot's record, which it reads from the file on first use. It is nil if there is none. The caller
// holds sl.change.
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
	record, err := decodeOf(sandboxID, content)
	var refused *refusal
	if errors.As(err, &refused) {
		refused.head.SandboxID = sandboxID
		return nil, &refusedError{path: s.file(sandboxID), reason: refused.reason, head: refused.head}
	}
	if err != nil {
		return nil, s.quarantine(ctx, sandboxID, err)
	}
	v := &version{record: record, file: sha256.Sum256(content)}
	sl.version.Store(v)
	return v, nil
}

// load returns the version of the slot's record, or errdefs.ErrNotFound. The caller holds sl.change.
func (s *Store) load(ctx context.Context, sandboxID string, sl *slot) (*version, error) {
	v, err := s.current(ctx, sandboxID, sl)
	if err == nil && v == nil {
		err = fmt.Errorf("sandbox %s has no checkpoint: %w", sandboxID, errdefs.ErrNotFound)
	}
	return v, err
}

// write makes r the slot's record, first on disk and then in memory. The caller holds sl.change and has called current.
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
	// Memory keeps the decoded content instead of the caller's value, so that it equals a read after a restart.
	if next.record, err = decodeRecord(raw); err != nil {
		return fmt.Errorf("the checkpoint of sandbox %s could not be read back: %w: %w", r.SandboxID, err,
			errdefs.ErrInvalidArgument)
	}
	if err := s.replace(sl, r.SandboxID, content); err != nil {
		return fmt.Errorf("writing the checkpoint of sandbox %s: %w", r.SandboxID, err)
	}
	sl.version.Store(next)
	sl.stale = false
	return nil
}

// replace replaces the content of a sandbox's file.
func (s *Store) replace(sl *slot, sandboxID string, content []byte) error {
	temp, err := writeTemp(s.disk, s.dir, content)
	if err != nil {
		return err
	}
	if err := s.disk.rename(temp, s.file(sandboxID)); err != nil {
		return errors.Join(err, s.disk.remove(temp))
	}
	if err := s.disk.syncDir(s.dir); err != nil {
		// The rename has happened, but a power cut may still undo it. So neither memory nor the caller may rely on the
		// new file, and the next Save repairs it.
		sl.stale = true
		return err
	}
	return nil
}

// replaceable returns nil if the file may be replaced or removed: there is none, this program understands it, or it was
// corrupt and is in the quarantine. The caller holds sl.change.
func (s *Store) replaceable(ctx context.Context, sandboxID string, sl *slot) error {
	_, err := s.current(ctx, sandboxID, sl)
	if s.isQuarantined(err) {
		return nil
	}
	return err
}

// isQuarantined reports whether err is about a corrupt file that was moved to the quarantine.
func (s *Store) isQuarantined(err error) bool {
	var corrupt *corruptError
	return errors.As(err, &corrupt) && corrupt.path != s.file(corrupt.sandboxID)
}
