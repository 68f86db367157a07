package ocinote

import (
	"os"
	"path/filepath"
)

// proofFile is not a container id, so it cannot collide with a note.
const proofFile = "proof.json"

// SaveProof saves criadapter's findings about the runtime atomically. The program criadapter-oci does not read them.
func (d Dir) SaveProof(text []byte) error {
	return d.write(filepath.Join(string(d), proofFile), text)
}

// LoadProof returns the text that SaveProof saved. Without one, as after a reboot, the error is fs.ErrNotExist.
func (d Dir) LoadProof() ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), proofFile))
}
