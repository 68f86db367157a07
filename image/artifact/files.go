package artifact

import (
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
)

// dirMode and fileMode let all users of a container read the files, with any umask.
const (
	dirMode  = 0o755
	fileMode = 0o644
)

// Write writes a file of an artifact below dir.
func Write(dir string, file File, content io.Reader) (err error) {
	if err := makeParents(dir, file.Path); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, file.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(fileMode); err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return err
}

// link makes a file of an artifact below dir, as another name of its blob.
func link(dir string, file File, blob string) error {
	if err := makeParents(dir, file.Path); err != nil {
		return err
	}
	return os.Link(blob, filepath.Join(dir, file.Path))
}

// makeParents makes the directories of a local path below dir.
func makeParents(dir, name string) error {
	parent := path.Dir(name)
	if parent == "." {
		return nil
	}
	if err := makeParents(dir, parent); err != nil {
		return err
	}
	full := filepath.Join(dir, parent)
	if err := os.Mkdir(full, dirMode); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Chmod(full, dirMode)
}
