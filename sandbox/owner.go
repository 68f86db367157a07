package sandbox

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/internal/step"
)

// owner is what the directory of a pod without a sandbox container says of it, should its record be lost.
type owner struct {
	RootDirectory string            `json:"rootDirectory"`
	Record        checkpoint.Record `json:"record"`
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

// Unrecorded returns the first records of the pods without a sandbox container of the criadapter with a root directory,
// whether or not they have another one.
func Unrecorded(rootDirectory string) []checkpoint.Record {
	return ownedPods(defaultPodsDir, rootDirectory)
}

// ownedPods leaves out what cannot be read: it is nobody's.
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
