package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// madeAt is the time of every file and image. With a fixed time, equal content has the same digest on every machine and
// day.
var madeAt = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// entry is one file of a layer: its tar header, and the content of a regular file.
type entry struct {
	header  tar.Header
	content []byte
}

func directory(name string, mode int64) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}}
}

func file(name string, mode int64, content []byte) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))},
		content: content}
}

func hardLink(name, target string) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o755}}
}

func symlink(name, target string) entry {
	return entry{header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

// newLayer packs entries into a layer. The order of entries does not matter; missing parent directories are added with
// mode 0755. Two entries of one name are an error: engines differ in which one they keep.
func newLayer(entries ...entry) (v1.Layer, error) {
	ordered, err := arrange(entries)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, e := range ordered {
		e.header.ModTime = madeAt
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.header.Name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.header.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(packed.Bytes())), nil
	}, tarball.WithCompressedCaching)
}

// arrange returns entries and their missing parents in the order in which they can be unpacked: by name, and hard links
// after everything that they may point to.
func arrange(entries []entry) ([]entry, error) {
	byName := make(map[string]entry, len(entries))
	for _, e := range entries {
		e.header.Name = strings.TrimPrefix(path.Clean("/"+e.header.Name), "/")
		if _, twice := byName[e.header.Name]; twice {
			return nil, fmt.Errorf("layer has two entries named %s", e.header.Name)
		}
		byName[e.header.Name] = e
	}
	for _, e := range entries {
		for dir := path.Dir(strings.TrimPrefix(path.Clean("/"+e.header.Name), "/")); dir != "."; dir = path.Dir(dir) {
			if _, known := byName[dir]; !known {
				byName[dir] = directory(dir, 0o755)
			}
		}
	}
	ordered := make([]entry, 0, len(byName))
	for _, e := range byName {
		ordered = append(ordered, e)
	}
	slices.SortFunc(ordered, func(a, b entry) int {
		if aLink, bLink := a.header.Typeflag == tar.TypeLink, b.header.Typeflag == tar.TypeLink; aLink != bLink {
			if aLink {
				return 1
			}
			return -1
		}
		return strings.Compare(a.header.Name, b.header.Name)
	})
	return ordered, nil
}
