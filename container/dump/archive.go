package dump

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// writer writes one archive.
type writer struct {
	*tar.Writer
	// linked has the first name of each file with several names. All its later names are hard links to the first.
	linked map[inode]string
}

func newWriter(to io.Writer) *writer { return &writer{tar.NewWriter(to), map[inode]string{}} }

// inode identifies a file. A new file may get the number of a removed file, but not its time of birth.
type inode struct {
	major, minor uint32
	number       uint64
	born         unix.StatxTimestamp
}

// linkedInode returns the inode of a file with several names. several is false for a file with one name, and on a
// kernel without statx(2).
func linkedInode(handle *os.File) (found inode, several bool) {
	var stat unix.Statx_t
	const mask = unix.STATX_INO | unix.STATX_NLINK | unix.STATX_BTIME
	if err := unix.Statx(int(handle.Fd()), "", unix.AT_EMPTY_PATH, mask, &stat); err != nil || stat.Nlink < 2 {
		return inode{}, false
	}
	return inode{stat.Dev_major, stat.Dev_minor, stat.Ino, stat.Btime}, true
}

// errShrunk is the error for a file that became shorter while it was archived. The archive then has zeros instead
// of the missing bytes, and stays valid.
var errShrunk = errors.New("it became shorter while it was read")

// Archive writes a directory as a tar archive. The file at path appears only when the archive is complete.
func Archive(ctx context.Context, dir, path string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only read
	return writeWhole(path, func(w *writer) error {
		return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
			if err == nil && name != "." {
				err = add(ctx, w, root, name)
			}
			return err
		})
	})
}

// Save writes some files of a root into a tar archive at a path. Programs may change the files meanwhile. Save leaves
// out files that are gone by then, and sockets, which no archive holds. If a file becomes shorter while Save reads it,
// the archive has zeros instead of the missing bytes. names are absolute.
func Save(ctx context.Context, root *os.Root, names []string, path string) error {
	return writeWhole(path, func(w *writer) error { return save(ctx, w, root, names) })
}

func save(ctx context.Context, w *writer, root *os.Root, names []string) error {
	for _, name := range slices.Sorted(slices.Values(names)) {
		if err := tolerate(add(ctx, w, root, strings.TrimPrefix(name, "/"))); err != nil {
			return err
		}
	}
	return nil
}

// SaveAll is Save for a root and all files in it. It leaves out the names that skip reports, and the files below them.
// The archive begins with the root itself, which has the name ".".
func SaveAll(ctx context.Context, root *os.Root, path string, skip func(name string) bool) error {
	return writeWhole(path, func(w *writer) error { return saveTree(ctx, w, root, ".", skip) })
}

// saveTree saves a file and, if it is a directory, the files in it. fs.WalkDir takes only names that are UTF-8.
func saveTree(ctx context.Context, w *writer, root *os.Root, name string, skip func(string) bool) error {
	if skip(name) {
		return nil
	}
	if err := tolerate(add(ctx, w, root, name)); err != nil {
		return err
	}
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return tolerate(err)
	}
	dir, err := root.OpenFile(name, unix.O_DIRECTORY, 0)
	if err != nil {
		return tolerate(err)
	}
	defer func() { _ = dir.Close() }() // it was only read
	names, err := dir.Readdirnames(-1)
	if tolerate(err) != nil {
		return err
	}
	for _, below := range slices.Sorted(slices.Values(names)) {
		if err := saveTree(ctx, w, root, filepath.Join(name, below), skip); err != nil {
			return err
		}
	}
	return nil
}

// CopyOwner gives a directory the owner and the mode of the root in an archive of SaveAll.
func CopyOwner(archive, dir string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	header, err := tar.NewReader(file).Next()
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	if err := os.Chown(dir, header.Uid, header.Gid); err != nil {
		return err
	}
	return os.Chmod(dir, header.FileInfo().Mode())
}

// tolerate returns nil for an error that a program caused by changing the file during the save.
func tolerate(err error) error {
	gone := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) // a directory in the path is a file now
	if gone || errors.Is(err, errShrunk) {
		return nil
	}
	return err
}

// writeWhole writes an archive beside its path, and renames it to the path when it is complete and on disk.
func writeWhole(path string, write func(*writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	w := newWriter(file)
	err = write(w)
	if err = errors.Join(err, w.Close(), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// add adds one file, directory, link or device as it is, or returns errShrunk. It looks at the file and reads it
// through one handle, since another file may take the name at any time. The handle only names the file (O_PATH):
// opening a FIFO would block, and opening a device can have effects.
func add(ctx context.Context, w *writer, root *os.Root, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	handle, err := root.OpenFile(name, unix.O_PATH, 0) // does not follow a link at the end of name
	if err != nil {
		return err
	}
	defer func() { _ = handle.Close() }() // it was only read
	info, err := handle.Stat()
	if err != nil || info.Mode()&fs.ModeSocket != 0 {
		return err
	}
	target := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if target, err = linkTarget(handle); err != nil {
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
	if info.IsDir() || info.Mode().IsRegular() {
		if header.PAXRecords, err = attributes(handle); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !info.Mode().IsRegular() {
		return w.WriteHeader(header)
	}
	return w.addContent(ctx, handle, header)
}

// addContent adds a regular file, or a hard link if the archive has the file by another name.
func (w *writer) addContent(ctx context.Context, handle *os.File, header *tar.Header) error {
	own, several := linkedInode(handle)
	if first, found := w.linked[own]; several && found {
		header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		return w.WriteHeader(header)
	}
	file, err := reopen(handle)
	if err != nil {
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	if several {
		w.linked[own] = header.Name
	}
	read, err := io.CopyN(w, whileWanted{ctx, file}, header.Size)
	if !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := io.CopyN(w, zeros{}, header.Size-read); err != nil {
		return err
	}
	return fmt.Errorf("%s: %w", header.Name, errShrunk)
}

// maxAttributes is the kernel's limit for a list of extended attributes and for one value, in bytes.
const maxAttributes = 64 << 10

// attributes returns the header's records of a file's extended attributes: the capabilities of a program, and what
// users set. The engine sets all other attributes itself, such as SELinux labels. As with reopen, no error matches
// fs.ErrNotExist.
func attributes(handle *os.File) (map[string]string, error) {
	path := fmt.Sprintf("/proc/self/fd/%d", handle.Fd()) // an O_PATH handle has no attributes itself
	list := make([]byte, maxAttributes)
	n, err := unix.Listxattr(path, list)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list extended attributes: %v", err)
	}
	records := map[string]string{}
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if name != "security.capability" && !strings.HasPrefix(name, "user.") || strings.Contains(name, "=") {
			continue // a record's name has no "="
		}
		value := make([]byte, maxAttributes)
		n, err := unix.Getxattr(path, name, value)
		if errors.Is(err, unix.ENODATA) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read extended attribute %s: %v", name, err)
		}
		records["SCHILY.xattr."+name] = string(value[:n])
	}
	return records, nil
}

// reopen opens the file that the handle names, for reading. The file is there, so no error matches fs.ErrNotExist: if
// /proc is missing, Save must not take the file for gone.
func reopen(handle *os.File) (*os.File, error) {
	file, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", handle.Fd()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open again: %v", err)
	}
	return file, err
}

// linkTarget returns the target of the symbolic link that the handle names.
func linkTarget(handle *os.File) (string, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(handle.Fd()), "", target)
	if err != nil {
		return "", &fs.PathError{Op: "readlinkat", Path: handle.Name(), Err: err}
	}
	return string(target[:n]), nil
}

// whileWanted is a file whose reads fail once a context has ended, so that a copy of a large file ends with it.
type whileWanted struct {
	ctx  context.Context
	file *os.File
}

func (w whileWanted) Read(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.file.Read(p)
}

// zeros is an endless file of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Copy copies a directory, which must have only directories and regular files. Read checks this for a checkpoint.
func Copy(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}
