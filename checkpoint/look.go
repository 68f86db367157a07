package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Found is what Look finds in a directory, in the order of the file names.
type Found struct {
	// Records are the records that this program understands.
	Records []Record
	// Unreadable are the sandbox ids of the other records: a newer program wrote them, or they are corrupt.
	Unreadable []string
	// Quarantined are the paths of the corrupt files in the quarantine.
	Quarantined []string
	// QuarantineErr is the error of reading the quarantine.
	QuarantineErr error
}

// Look reads the records of a directory whose [Store] belongs to another process. It changes nothing: a corrupt file
// stays, and so does a temporary one. A directory that does not exist counts as empty. If the directory itself cannot
// be read, Look returns the error and no records.
func Look(dir string) (Found, error) {
	names, err := namesIn(dir)
	if err != nil {
		return Found{}, err
	}
	var found Found
	for _, name := range names {
		id, ok := idOfFile(name)
		if !ok {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		var record Record
		if err == nil {
			record, err = decodeOf(id, content)
		}
		if err != nil {
			found.Unreadable = append(found.Unreadable, id)
			continue
		}
		found.Records = append(found.Records, record)
	}
	dir = filepath.Join(dir, quarantineDir)
	names, found.QuarantineErr = namesIn(dir)
	for _, name := range names {
		found.Quarantined = append(found.Quarantined, filepath.Join(dir, name))
	}
	return found, nil
}

// namesIn lists a directory in order. A directory that does not exist counts as empty.
func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}
