package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// manuals makes the completions and man pages from the command line's definitions.
func (r release) manuals(ctx context.Context, dir string) ([]file, error) {
	_, err := output(ctx, r.source, nil, "go", "run", "./packaging/manuals", "-to", dir, "-version", r.name,
		"-date", r.time.Format(time.DateOnly))
	if err != nil {
		return nil, err
	}
	var files []file
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		installed := filepath.Join("usr/share", relative)
		if strings.Contains(entry.Name(), "kubelet-core") { // which has a package of its own
			installed = filepath.Join("kubelet-core", installed)
		}
		files = append(files, file{path: installed, mode: 0o644, content: content})
		return err
	})
	return files, err
}
