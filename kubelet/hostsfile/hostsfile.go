// Package hostsfile writes the hosts file of a pod, which its containers have mounted at /etc/hosts.
package hostsfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// mode lets every user in a container read the file.
const mode = 0o644

// Path returns the path of a pod's hosts file below the root directory.
func Path(rootDir string, uid types.UID) string {
	return filepath.Join(model.PodDirectory(rootDir, uid), "etc-hosts")
}

// Write sets the content of a hosts file, and makes the file and its directory if they are missing. An existing file
// stays the same file, because running containers have it mounted. One write replaces its content: a reader, or a
// crash, never finds an empty file. It is safe for concurrent use, as Update is.
func Write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return change(path, os.O_CREATE, func([]byte) []byte { return content })
}

// Update changes the content of an existing hosts file, like Write. No other write comes between its read and its
// write. A missing file stays missing, because the pod may have ended: Update then returns an fs.ErrNotExist.
func Update(path string, to func(have []byte) []byte) error { return change(path, 0, to) }

// change opens the file with flags, and rewrites it under a lock on the pod's directory. It does not lock the file
// itself: a container that has the file mounted could hold that lock for ever.
func change(path string, flags int, to func(have []byte) []byte) error {
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer directory.Close()
	if err := unix.Flock(int(directory.Fd()), unix.LOCK_EX); err != nil {
		return &os.PathError{Op: "flock", Path: directory.Name(), Err: err}
	}
	have, readErr := os.ReadFile(path)
	if readErr != nil && flags&os.O_CREATE == 0 {
		return readErr
	}
	content := to(have)
	if readErr == nil && bytes.Equal(have, content) {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|flags, mode)
	if err != nil {
		return err
	}
	return errors.Join(overwrite(file, content), file.Close())
}

func overwrite(file *os.File, content []byte) error {
	if err := file.Chmod(mode); err != nil { // whatever the umask
		return err
	}
	before, err := file.Stat()
	if err != nil {
		return err
	}
	// Empty lines replace the rest of longer content until Truncate.
	surplus := max(before.Size()-int64(len(content)), 0)
	padded := append(bytes.Clone(content), bytes.Repeat([]byte("\n"), int(surplus))...)
	if _, err := file.Write(padded); err != nil || surplus == 0 {
		return err
	}
	return file.Truncate(int64(len(content)))
}
