package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/log"
)

// quarantineDir is the subdirectory that corrupt files are moved to.
const quarantineDir = "quarantine"

// Quarantined describes one corrupt file.
type Quarantined struct {
	// SandboxID is the sandbox in the file's name.
	SandboxID string
	// Path is the file's present path.
	Path string
	// Reason is the defect of the file.
	Reason error
}

// quarantine moves the corrupt file of sandboxID to the quarantine, records it for List and returns the *corruptError
// to report.
func (s *Store) quarantine(ctx context.Context, sandboxID string, reason error) error {
	from := s.file(sandboxID)
	to, err := moveToQuarantine(ctx, s.disk, from, filepath.Join(s.dir, quarantineDir))
	if err != nil {
		return &corruptError{
			sandboxID: sandboxID,
			path:      from,
			err:       fmt.Errorf("%w (moving it to the quarantine failed: %w)", reason, err),
		}
	}
	log.G(ctx).WithError(reason).WithFields(log.Fields{"podSandboxID": sandboxID, "quarantine": to}).
		Error("corrupt checkpoint moved to quarantine")
	s.mu.Lock()
	s.quarantined = append(s.quarantined, Quarantined{SandboxID: sandboxID, Path: to, Reason: reason})
	s.mu.Unlock()
	return &corruptError{sandboxID: sandboxID, path: to, err: reason}
}

// moveToQuarantine moves a file into dir. Its new name ends with the time. The move never replaces a file. It returns
// the new path.
func moveToQuarantine(ctx context.Context, d disk, file, dir string) (string, error) {
	if err := makeDir(dir); err != nil {
		return "", err
	}
	for at := time.Now().UTC(); ; at = at.Add(time.Nanosecond) {
		to := filepath.Join(dir, filepath.Base(file)+"."+at.Format("20060102T150405.000000000Z"))
		_, err := os.Lstat(to)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := d.rename(file, to); err != nil {
			return "", err
		}
		// The directory with the new name is synced first. After a power cut between the two syncs, the file is in the
		// new directory, and perhaps still in the old one. A failed sync counts as success: at worst the file is found
		// and moved once more.
		if err := errors.Join(d.syncDir(dir), d.syncDir(filepath.Dir(file))); err != nil {
			log.G(ctx).WithError(err).WithField("quarantine", to).Warn("move to quarantine may not survive a power cut")
		}
		return to, nil
	}
}
