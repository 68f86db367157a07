package images

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// unpack returns the headers of a layer by name, in the order of the archive.
func unpack(t *testing.T, layer v1.Layer) (names []string, headers map[string]*tar.Header) {
	t.Helper()
	content, err := layer.Uncompressed()
	testutil.Must(t, err)
	defer content.Close()
	headers = make(map[string]*tar.Header)
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names, headers
		}
		testutil.Must(t, err)
		_, twice := headers[header.Name]
		testutil.Assert(t, !twice, "%s is in the archive twice", header.Name)
		names = append(names, header.Name)
		headers[header.Name] = header
	}
}

func TestLayerOrder(t *testing.T) {
	layer, err := newLayer(
		hardLink("bin/a", "bin/z"),
		file("/bin/z", 0o4755, []byte("program")),
		file("etc/deep/file", 0o600, nil),
		directory("tmp", 0o1777),
	)
	testutil.Must(t, err)
	names, headers := unpack(t, layer)
	want := []string{"bin", "bin/z", "etc", "etc/deep", "etc/deep/file", "tmp", "bin/a"}
	testutil.Assert(t, slices.Equal(names, want), "got %q, want %q", names, want)
	for name, mode := range map[string]int64{"bin": 0o755, "bin/z": 0o4755, "etc/deep/file": 0o600, "tmp": 0o1777} {
		testutil.Equal(t, headers[name].Mode, mode, "%s: mode", name)
	}
	link := headers["bin/a"]
	testutil.Assert(t, link.Typeflag == tar.TypeLink && link.Linkname == "bin/z",
		"bin/a: type %c to %q", link.Typeflag, link.Linkname)
}

func TestLayerRefusesTwoOfAName(t *testing.T) {
	_, err := newLayer(file("etc/passwd", 0o644, nil), file("/etc//passwd", 0o644, nil))
	testutil.Assert(t, err != nil, "no error")
}
