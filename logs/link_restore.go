package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// criadapter may be killed between any two steps of ReopenLink: copy, rename over the link, emptying of the engine's
// file, new link. The kubelet then gets no answer, and renames the rotated log back. The files show the last step:
//
//   - If the engine's file still begins with the copy, the engine's file was not emptied. The copy becomes a link
//     again. If the copy stayed, its lines would be shown and copied twice.
//   - Any other copy at the log path is complete, and only the new link is missing. The copy is rotated and the link is
//     put at the log path.

// rotatedFormat is the kubelet's suffix of a rotated log.
const rotatedFormat = "20060102-150405"

// RestoreLink repairs a linked log after an interrupted ReopenLink. It does nothing to a log that was not linked. It
// must not run during ReopenLink.
func RestoreLink(enginePath, root, logPath string) error {
	top, name, err := openRoot(root, logPath)
	if err != nil {
		return ignoreNotExist(err)
	}
	defer top.Close() // only names are changed
	if err := top.Remove(hidden(name, copySuffix)); ignoreNotExist(err) != nil {
		return fmt.Errorf("removing the leftover of an unfinished copy in %s: %w", top.Name(), err)
	}
	_, rotated, err := listLog(top, enginePath, name)
	if err != nil {
		return err
	}
	for _, candidate := range append(rotated, name) {
		copied, begins, err := comparedWith(top, enginePath, candidate)
		switch {
		case err != nil:
			return fmt.Errorf("comparing the log %s with the engine's: %w", filepath.Join(top.Name(), candidate), err)
		case copied && begins:
			err = putLink(top, enginePath, candidate)
		case copied && candidate == name:
			if err = rotateNow(top, name); err == nil {
				err = putLink(top, enginePath, name)
			}
		}
		if err != nil {
			return fmt.Errorf("linking the log again: %w", err)
		}
	}
	return nil
}

// rotateNow gives the log an unused name, with the kubelet's suffix of the present time.
func rotateNow(top *os.Root, name string) error {
	free, err := freeName(top, name)
	if err != nil {
		return err
	}
	return top.Rename(name, free)
}

// freeName returns the name for rotateNow. It fails if it cannot check a name: a rename would replace a file that has
// this name.
func freeName(top *os.Root, name string) (string, error) {
	for at := time.Now(); ; at = at.Add(time.Second) {
		free := name + "." + at.Format(rotatedFormat)
		_, err := top.Lstat(free)
		if errors.Is(err, fs.ErrNotExist) {
			return free, nil
		}
		if err != nil {
			return "", fmt.Errorf("looking for an unused name of a rotated log: %w", err)
		}
	}
}

// comparedWith reports whether a plain file is a copy of an engine's file, by its first bytes. begins reports whether
// the engine's file still begins with the whole copy.
func comparedWith(top *os.Root, enginePath, name string) (copied, begins bool, err error) {
	info, err := top.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false, false, ignoreNotExist(err)
	}
	file, err := top.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe may have replaced the file
	if err != nil {
		return false, false, ignoreNotExist(err)
	}
	defer file.Close() // only read
	start := make([]byte, len(jsonStart))
	if _, err := file.ReadAt(start, 0); err != nil || !bytes.Equal(start, jsonStart) {
		return false, false, nil
	}
	engine, err := os.Open(enginePath)
	if err != nil {
		return true, false, ignoreNotExist(err)
	}
	defer engine.Close() // only read
	begins, err = beginsWith(engine, file)
	return true, begins, err
}

// beginsWith reports whether whole begins with all bytes of start.
func beginsWith(whole, start io.Reader) (bool, error) {
	a, b := make([]byte, batchSize), make([]byte, batchSize)
	for {
		n, err := io.ReadFull(start, a)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
		m, err := io.ReadFull(whole, b[:n])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
		if !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
	}
}

// copySuffix ends the name of the hidden copy of a linked log.
const copySuffix = ".copy"

// hidden is the path of a file beside path that collectors do not take for a rotated log.
func hidden(path, suffix string) string {
	dir, base := filepath.Split(path)
	return filepath.Join(dir, "."+base+suffix)
}
