package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/step"
)

const (
	// defaultPodsDir is on a tmpfs, because it must not survive a reboot.
	defaultPodsDir = "/run/criadapter/pods"

	ownerFile = "owner"
)

// owner is stored in the directory of a pod without a sandbox container, in case its record is lost.
type owner struct {
	RootDirectory string            `json:"rootDirectory"`
	Record        checkpoint.Record `json:"record"`
}

// unfinished returns the prefix of directories that are being made or removed, with or without an owner file. The
// prefix has a hash of the owner's root directory, so that a crash leaves no directory without an owner.
func unfinished(rootDirectory string) string {
	sum := sha256.Sum256([]byte(rootDirectory))
	return ".unfinished-" + hex.EncodeToString(sum[:8]) + "-"
}

// makeOwned makes a directory with an owner file. Under its final name the directory never lacks that file.
func makeOwned(dir string, o owner) error {
	unready := filepath.Join(filepath.Dir(dir), unfinished(o.RootDirectory)+filepath.Base(dir))
	err := os.Mkdir(unready, 0o700)
	if err == nil {
		err = writeOwner(unready, o)
	}
	if err == nil {
		err = os.Rename(unready, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(unready))
	}
	return nil
}

// removeOwned removes a directory with its owner file and everything else in it.
func removeOwned(dir, rootDirectory string) error {
	defer step.At("pod directory: remove")()
	removing := filepath.Join(filepath.Dir(dir), unfinished(rootDirectory)+filepath.Base(dir))
	if err := os.Rename(dir, removing); err != nil {
		return err
	}
	return removeUnfinished(removing)
}

func removeUnfinished(dir string) error {
	defer step.At("pod directory: remove unfinished")()
	return errors.Join(ignoreMissing(os.Remove(filepath.Join(dir, ownerFile))), removeTree(dir))
}

// sweepUnfinished removes unfinished directories that a crash left, except for pods that are being made.
func sweepUnfinished(dir, rootDirectory string, isMaking func(id string) bool) error {
	entries, err := os.ReadDir(dir)
	errs := []error{ignoreMissing(err)}
	for _, entry := range entries {
		if id, found := strings.CutPrefix(entry.Name(), unfinished(rootDirectory)); found && !isMaking(id) {
			errs = append(errs, removeUnfinished(filepath.Join(dir, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

func writeOwner(dir string, o owner) error {
	defer step.At("pod directory: write owner")()
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, ownerFile), text, 0o600)
}

func readOwner(dir string) (owner, error) {
	var o owner
	text, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// Unrecorded returns the records that pods without a sandbox container have in their own directories, for one root
// directory. A record is as it was when its pod was made. Most pods also have a record in the store.
func Unrecorded(rootDirectory string) []checkpoint.Record {
	return ownedPods(defaultPodsDir, rootDirectory)
}

// ownedPods returns the records in the pods' directories of one root directory. It leaves out unreadable owner files.
func ownedPods(dir, rootDirectory string) []checkpoint.Record {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var records []checkpoint.Record
	for _, entry := range entries {
		found, err := readOwner(filepath.Join(dir, entry.Name()))
		if err == nil && found.RootDirectory == rootDirectory && found.Record.SandboxID == entry.Name() {
			records = append(records, found.Record)
		}
	}
	return records
}
