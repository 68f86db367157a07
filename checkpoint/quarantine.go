package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	log "github.com/sirupsen/logrus"
)

// quarantineFolder is the subfolder that corrupt files are moved to.
const quarantineFolder = "quarantine"

// Quarantined is the report of one corrupt file.
type Quarantined struct {
	// SandboxID is the sandbox whose record was in the file, by its name.
	SandboxID string
	// Path is where the file is now.
	Path string
	// Reason is what was wrong with it.
	Reason error
}

// quarantine moves the corrupt file of sandboxID out of the way, remembers it
// for List and returns the *CorruptError to report.
func (s *Store) quarantine(sandboxID string, reason error) error {
	from := s.file(sandboxID)
	to, err := moveToQuarantine(from, filepath.Join(s.dir, quarantineFolder))
	if err != nil {
		return &CorruptError{
			SandboxID: sandboxID,
			Path:      from,
			Err:       fmt.Errorf("%w (moving it to the quarantine failed: %w)", reason, err),
		}
	}
	log.WithError(reason).WithFields(log.Fields{"sandbox": sandboxID, "quarantine": to}).
		Error("Corrupt checkpoint moved to the quarantine")
	s.mu.Lock()
	s.quarantined = append(s.quarantined, Quarantined{SandboxID: sandboxID, Path: to, Reason: reason})
	s.mu.Unlock()
	return &CorruptError{SandboxID: sandboxID, Path: to, Err: reason}
}

// moveToQuarantine moves a file into folder under its name and the time, never
// over a file that is there already, and returns the new path.
func moveToQuarantine(file, folder string) (string, error) {
	if err := makeFolder(folder); err != nil {
		return "", err
	}
	for at := time.Now().UTC(); ; at = at.Add(time.Nanosecond) {
		to := filepath.Join(folder, filepath.Base(file)+"."+at.Format("20060102T150405.000000000Z"))
		_, err := os.Lstat(to)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if err := os.Rename(file, to); err != nil {
			return "", err
		}
		// The new name first: after a power cut in between the file is in
		// both folders, not in none. A failure is no reason to call the file
		// unmoved: at worst it is found and moved once more.
		if err := errors.Join(syncFolder(folder), syncFolder(filepath.Dir(file))); err != nil {
			log.WithError(err).WithField("quarantine", to).Warn("A power cut may undo the move to the quarantine")
		}
		return to, nil
	}
}
