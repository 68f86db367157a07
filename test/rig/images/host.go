package images

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
)

// Host is where the images' programs come from.
type Host struct {
	// Architecture is a value of GOARCH.
	Architecture string
	// Userland is a tar archive with busybox, pgrep and ipcs in bin, and with their libraries. If it is empty, they are
	// this host's own.
	Userland string
}

// ThisHost is the host that the tests run on.
func ThisHost() Host { return Host{Architecture: runtime.GOARCH} }

// programs returns the programs that userland names, with their libraries.
func (h Host) programs(ctx context.Context) ([]entry, error) {
	if h.Userland == "" {
		return readTools(ctx, userland())
	}
	archive, err := os.Open(h.Userland)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	var entries []entry
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}
		entries = append(entries, file(header.Name, 0o755, content))
	}
}
