package dump

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Archive writes a directory as a tar archive. The file at path appears only when the archive is complete.
func Archive(ctx context.Context, dir, path string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	return whole(path, func(w *tar.Writer) error {
		return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
			if err == nil && name != "." {
				err = add(ctx, w, root, name)
			}
			return err
		})
	})
}

// Save writes some files of a root into a tar archive at a path. It leaves out files that are gone by then, and
// sockets, which no archive holds. names are absolute.
func Save(ctx context.Context, root *os.Root, names []string, path string) error {
	return whole(path, func(w *tar.Writer) error {
		for _, name := range slices.Sorted(slices.Values(names)) {
			err := add(ctx, w, root, strings.TrimPrefix(name, "/"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// whole writes an archive beside its path, and puts it there when it is complete and on disk.
func whole(path string, write func(*tar.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	w := tar.NewWriter(file)
	err = write(w)
	if err = errors.Join(err, w.Close(), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// add adds one file, directory, link or device as it is.
func add(ctx context.Context, w *tar.Writer, root *os.Root, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSocket != 0 {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = root.Readlink(name); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name, header.Uname, header.Gname = name, "", "" // owners are numbers only: the names would be the node's
	if info.IsDir() {
		header.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return w.WriteHeader(header)
	}
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(w, file, header.Size)
	return err
}

// Copy copies a directory, which must have only directories and regular files.
func Copy(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}
