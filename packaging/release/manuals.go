package main

import (
	"context"
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
	files, err := readTree(dir)
	for i, f := range files {
		installed := filepath.Join("usr/share", f.path)
		if strings.Contains(filepath.Base(f.path), "kubelet-core") { // kubelet-core has a package of its own
			installed = filepath.Join("kubelet-core", installed)
		}
		files[i].path = installed
	}
	return files, err
}
