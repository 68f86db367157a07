package volumemanager

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/kubelet/volumekinds"
)

// A volume of files on disk:
//
//	<volume>/..2026_01_02_15_04_05.1234/a/b   the files of one generation
//	<volume>/..data -> ..2026_01_02_15_04_05.1234
//	<volume>/a -> ..data/a                    a link for users, one per name at the top
//
// A new generation is written beside the old one. Renaming a link over ..data swaps all files at once, so a container
// sees all old or all new files.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	// reserved is the prefix that names of files must not have.
	reserved = ".."
	// generationTime is the prefix of a generation's name, as in the kubelet.
	generationTime = "..2006_01_02_15_04_05."
)

// swap replaces the content of the volume at path. Finish may change owners and modes of a generation before it is
// visible. Equal content is not written again. If the new generation cannot be written, the old content stays visible.
// After an error in the links or in the removal of old files, the new content is already visible.
func swap(path string, want volumekinds.Files, finish func(directory string) error) error {
	for name := range want {
		if err := checkName(name); err != nil {
			return err
		}
	}
	current, err := os.Readlink(filepath.Join(path, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if current == "" || !holds(filepath.Join(path, current), want) {
		if current, err = replace(path, want, finish); err != nil {
			return err
		}
	}
	if err := link(path, want); err != nil {
		return err
	}
	return sweep(path, current, want)
}

// filled reports whether the volume at path has content.
func filled(path string) bool {
	_, err := os.Stat(filepath.Join(path, dataLink))
	return err == nil
}

// checkName refuses paths that leave the volume, and reserved names.
func checkName(name string) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) != name || name == "." {
		return fmt.Errorf("path %q does not stay in the volume: %w", name, errdefs.ErrInvalidArgument)
	}
	if strings.HasPrefix(name, reserved) {
		return fmt.Errorf("path %q: a name in a volume must not begin with %q: %w", name, reserved,
			errdefs.ErrInvalidArgument)
	}
	return nil
}

// holds reports whether a generation has exactly the wanted content.
func holds(generation string, want volumekinds.Files) bool {
	differs := errors.New("the content differs")
	matching := 0
	err := filepath.WalkDir(generation, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(generation, path)
		if err != nil {
			return err
		}
		have, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, ok := want[name]
		if !ok || !bytes.Equal(file.Data, have) {
			return differs
		}
		matching++
		return nil
	})
	return err == nil && matching == len(want)
}

// replace writes a new generation, makes it the current one, and returns its name.
func replace(path string, want volumekinds.Files, finish func(directory string) error) (name string, err error) {
	directory, err := os.MkdirTemp(path, time.Now().UTC().Format(generationTime))
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(directory))
		}
	}()
	if err := os.Chmod(directory, 0o755); err != nil {
		return "", err
	}
	for name, file := range want {
		if err := write(filepath.Join(directory, name), file); err != nil {
			return "", err
		}
	}
	if err := finish(directory); err != nil {
		return "", err
	}
	name = filepath.Base(directory)
	temporary := filepath.Join(path, newDataLink)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.Symlink(name, temporary); err != nil {
		return "", err
	}
	return name, os.Rename(temporary, filepath.Join(path, dataLink))
}

func write(path string, file volumekinds.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, file.Data, file.Mode); err != nil {
		return err
	}
	if file.Owner != nil {
		if err := os.Chown(path, int(*file.Owner), -1); err != nil {
			return err
		}
	}
	return os.Chmod(path, file.Mode) // independent of the umask
}

// tops returns the names at the top level of the volume.
func tops(want volumekinds.Files) []string {
	var names []string
	for name := range want {
		top, _, _ := strings.Cut(name, "/")
		names = append(names, top)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// link makes the links at the top of the volume, which containers open.
func link(path string, want volumekinds.Files) error {
	for _, top := range tops(want) {
		target := filepath.Join(dataLink, top)
		err := os.Symlink(target, filepath.Join(path, top))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// sweep removes links to removed files, and other generations.
func sweep(path, current string, want volumekinds.Files) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	keep := append(tops(want), dataLink, current)
	for _, entry := range entries {
		name := entry.Name()
		if slices.Contains(keep, name) {
			continue
		}
		stale := strings.HasPrefix(name, reserved) && entry.IsDir()
		if target, err := os.Readlink(filepath.Join(path, name)); err == nil {
			stale = target == filepath.Join(dataLink, name)
		}
		if !stale {
			continue // a container made this file
		}
		if err := os.RemoveAll(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}
