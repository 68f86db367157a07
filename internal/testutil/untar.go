package testutil

import (
	"archive/tar"
	"errors"
	"io"
	"testing"
)

// Untar returns the names in a tar archive with their contents. A link has "-> " and its target.
func Untar(t testing.TB, archive io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Must(t, err)
		content, err := io.ReadAll(r)
		Must(t, err)
		files[header.Name] = string(content)
		if header.Linkname != "" {
			files[header.Name] = "-> " + header.Linkname
		}
	}
}
