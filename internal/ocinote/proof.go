package ocinote

import (
	"os"
	"path/filepath"
)

// proofFile is no container id.
const proofFile = "proof.json"

// SaveProof keeps what criadapter has found out about the runtime, whole or not at all. The program criadapter-oci does
// not read it.
func (d Dir) SaveProof(text []byte) error {
	return d.write(filepath.Join(string(d), proofFile), text)
}

// LoadProof returns what SaveProof saved. Before that, and after a reboot, the error is fs.ErrNotExist.
func (d Dir) LoadProof() ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), proofFile))
}
