package main

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// manuals makes the completions and man pages from the command line's definitions.
func (r release) manuals(ctx context.Context, dir string) ([]file, error) {
	_, err := output(ctx, r.source, nil, "go", "run", "./cmd/criadapter/command/gen", "-to", dir, "-version", r.name,
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
		files = append(files, file{path: filepath.Join("usr/share", relative), mode: 0o644, content: content})
		return err
	})
	return files, err
}
