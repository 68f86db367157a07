package ocinote

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// DefaultDir is the default directory of the notes.
const DefaultDir = "/run/criadapter/oci"

// DirFlag is criadapter-oci's flag for a directory of notes other than DefaultDir. The engine's configuration passes
// it. It must be the first argument, and the real runtime does not get it.
const DirFlag = "criadapter-notes"

// DirOf returns the directory of notes that arguments of criadapter-oci name, or DefaultDir.
func DirOf(args []string) Dir {
	const flag = "--" + DirFlag
	for i, arg := range args {
		if dir, ok := strings.CutPrefix(arg, flag+"="); ok {
			return Dir(dir)
		}
		if arg == flag && i+1 < len(args) {
			return Dir(args[i+1])
		}
	}
	return DefaultDir
}

// maxNote is the size limit of a note in bytes.
const maxNote = 4 << 20

// Dir is the directory of notes. Its methods are safe for concurrent use on different containers.
type Dir string

// Save writes the note of a container atomically. It does not sync the file, since no note outlives a reboot.
func (d Dir) Save(container string, note Note) error {
	path, err := d.path(container)
	if err != nil {
		return err
	}
	text, err := encode(note)
	if err != nil {
		return fmt.Errorf("note of container %s: %w", container, err)
	}
	return d.write(path, text)
}

const (
	unfinishedSuffix = ".new"
	// unfinishedAge is the age at which an unfinished file is a leftover of a crash.
	unfinishedAge = time.Minute
)

// Sweep removes the unfinished files that a crash left, once they are older than unfinishedAge. Two servers may sweep
// one directory at once, for example during an upgrade.
func (d Dir) Sweep() error {
	unfinished, err := filepath.Glob(filepath.Join(string(d), "*"+unfinishedSuffix))
	for _, path := range unfinished {
		stat, statErr := os.Lstat(path)
		if statErr != nil || time.Since(stat.ModTime()) <= unfinishedAge {
			continue
		}
		if removeErr := os.Remove(path); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return err
}

// write writes a file in the directory atomically. Two servers may write the same file at once, for example during an
// upgrade.
func (d Dir) write(path string, text []byte) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	unfinished, err := os.CreateTemp(string(d), filepath.Base(path)+".*"+unfinishedSuffix) // of mode 0600
	if err != nil {
		return err
	}
	_, err = unfinished.Write(text)
	if err = errors.Join(err, unfinished.Close()); err == nil {
		err = os.Rename(unfinished.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished.Name()))
	}
	return nil
}

// Load reads the note of a container. Without one the error is fs.ErrNotExist.
func (d Dir) Load(container string) (Note, error) {
	path, err := d.path(container)
	if err != nil {
		return Note{}, err
	}
	stat, err := os.Lstat(path)
	if err != nil {
		return Note{}, err
	}
	if !stat.Mode().IsRegular() || stat.Size() > maxNote {
		return Note{}, fmt.Errorf("%s is not a note: %s of %d bytes", path, stat.Mode(), stat.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Note{}, err
	}
	note, err := decode(text)
	if err != nil {
		return Note{}, fmt.Errorf("%s: %w", path, err)
	}
	return note, nil
}

// Remove removes the note of a container, and its waiter's socket. A missing note is not an error.
func (d Dir) Remove(container string) error {
	path, err := d.path(container)
	if err != nil {
		return err
	}
	for _, path := range []string{d.WaiterSocket(container), path} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// WaiterSocket returns the path of the socket by which criadapter-oci reaches the process that waits for a container in
// a sandbox (see Note.InSandbox).
func (d Dir) WaiterSocket(container string) string {
	return filepath.Join(string(d), container+".waiter")
}

// List returns the containers that have a note.
func (d Dir) List() ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var containers []string
	for _, entry := range entries {
		if IsID(entry.Name()) {
			containers = append(containers, entry.Name())
		}
	}
	return containers, err
}

func (d Dir) path(container string) (string, error) {
	if !IsID(container) {
		return "", fmt.Errorf("%q is not a container id", container)
	}
	return filepath.Join(string(d), container), nil
}

// IsID reports whether a text is an engine's container id. Only such ids have notes.
func IsID(container string) bool {
	id, err := hex.DecodeString(container)
	return err == nil && len(id) == sha256.Size
}

// header is the first line of a note.
type header struct {
	Version int    `json:"version"`
	SHA256  string `json:"sha256"`
}

// encode returns a note's text: a line with the version and the checksum of the rest.
func encode(note Note) ([]byte, error) {
	body, err := json.Marshal(note)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	first, err := json.Marshal(header{Version: version, SHA256: hex.EncodeToString(sum[:])})
	return append(append(first, '\n'), body...), err
}

// decode reads the text of encode. It fails for a damaged text, for another version and for an unknown field.
func decode(text []byte) (Note, error) {
	first, body, _ := bytes.Cut(text, []byte("\n"))
	var head header
	if err := json.Unmarshal(first, &head); err != nil {
		return Note{}, fmt.Errorf("the note has no header: %w", err)
	}
	if head.Version != version {
		return Note{}, fmt.Errorf(
			"the note has version %d and this program knows %d: install criadapter and criadapter-oci of one release",
			head.Version, version)
	}
	if sum := sha256.Sum256(body); head.SHA256 != hex.EncodeToString(sum[:]) {
		return Note{}, errors.New("the note is damaged: its checksum is wrong")
	}
	var note Note
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&note)
	return note, err
}
