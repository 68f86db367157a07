package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// filler is the file that fills a disk.
const filler = "filler"

// fill writes a file until the disk of dir is full, to the last byte.
func fill(dir string) (err error) {
	file, err := os.OpenFile(filepath.Join(dir, filler), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for size := 1 << 20; size > 0; {
		written, err := file.Write(make([]byte, size))
		if written == size {
			continue
		}
		if !errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("fill %s: %w", dir, err)
		}
		size /= 2
	}
	return nil
}

// empty removes the file of fill.
func empty(dir string) error { return os.Remove(filepath.Join(dir, filler)) }
