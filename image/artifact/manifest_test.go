package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/internal/testutil"
)

const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeEmpty    = "application/vnd.oci.empty.v1+json"
)

// layer is a layer with a title, as JSON.
func layer(content, title string) string {
	annotations, _ := json.Marshal(map[string]string{"org.opencontainers.image.title": title})
	return fmt.Sprintf(`{"mediaType":"text/plain","digest":%q,"size":%d,"annotations":%s}`,
		digest.FromString(content), len(content), annotations)
}

func manifest(layers ...string) string {
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q},"layers":[%s]}`, typeManifest,
		typeEmpty, strings.Join(layers, ","))
}

func TestParseManifest(t *testing.T) {
	hex := digest.FromString("x").Encoded()
	for name, c := range map[string]struct {
		raw  string
		want string // the paths of the files
		err  error
	}{
		"one file":              {manifest(layer("x", "a.txt")), "a.txt", nil},
		"files in directories":  {manifest(layer("x", "d/a"), layer("y", "d/e/b")), "d/a d/e/b", nil},
		"a layer twice":         {manifest(layer("x", "a"), layer("x", "a")), "a", nil},
		"a blob of two names":   {manifest(layer("x", "a"), layer("x", "b")), "a b", nil},
		"no title":              {manifest(layer("x", "")), "sha256-" + hex, nil},
		"a title to be cleaned": {manifest(layer("x", "./d//a")), "d/a", nil},
		"no layers":             {manifest(), "", nil},
		"no type":               {strings.Replace(manifest(layer("x", "a")), typeManifest, "", 1), "a", nil},
		"another configuration": {strings.Replace(manifest(layer("x", "a")), typeEmpty,
			"application/vnd.cncf.helm.config.v1+json", 1), "a", nil},

		"an image": {strings.Replace(manifest(), typeEmpty, "application/vnd.oci.image.config.v1+json", 1), "",
			ErrNotArtifact},
		"an image of Docker": {strings.Replace(manifest(), typeEmpty,
			"application/vnd.docker.container.image.v1+json", 1), "", ErrNotArtifact},
		"no configuration": {strings.Replace(manifest(), typeEmpty, "", 1), "", ErrNotArtifact},
		"an index": {strings.Replace(manifest(), typeManifest, "application/vnd.oci.image.index.v1+json", 1), "",
			ErrNotArtifact},
		"a manifest of Docker": {strings.Replace(manifest(), typeManifest,
			"application/vnd.docker.distribution.manifest.v2+json", 1), "", ErrNotArtifact},
		"no JSON": {"hello", "", ErrNotArtifact},

		"a title above":        {manifest(layer("x", "../a")), "", errdefs.ErrInvalidArgument},
		"an absolute title":    {manifest(layer("x", "/etc/passwd")), "", errdefs.ErrInvalidArgument},
		"a directory's title":  {manifest(layer("x", ".")), "", errdefs.ErrInvalidArgument},
		"a title with NUL":     {manifest(layer("x", "a\x00b")), "", errdefs.ErrInvalidArgument},
		"two files of a title": {manifest(layer("x", "a"), layer("y", "a")), "", errdefs.ErrInvalidArgument},
		"a file as directory":  {manifest(layer("x", "a"), layer("y", "a/b")), "", errdefs.ErrInvalidArgument},
		"no digest": {manifest(`{"digest":"sha256:../../x","size":1}`), "",
			errdefs.ErrInvalidArgument},
		"another algorithm": {manifest(fmt.Sprintf(`{"digest":%q,"size":1}`, digest.SHA512.FromString("x"))), "",
			errdefs.ErrInvalidArgument},
		"a negative size": {manifest(fmt.Sprintf(`{"digest":%q,"size":-1}`, digest.FromString("x"))), "",
			errdefs.ErrInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			files, err := ParseManifest([]byte(c.raw))
			testutil.Require(t, errors.Is(err, c.err), "got the error %v, want %v", err, c.err)
			var paths []string
			for _, file := range files {
				paths = append(paths, file.Path)
			}
			testutil.Equal(t, strings.Join(paths, " "), c.want, "files")
		})
	}
}

// FuzzManifest checks that the files of any manifest stay in their directory, each with its own name.
func FuzzManifest(f *testing.F) {
	for _, raw := range []string{manifest(layer("x", "d/a"), layer("y", "")), manifest(), "{}"} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		files, err := ParseManifest(raw)
		if err != nil {
			return
		}
		dir := t.TempDir()
		for _, file := range files {
			testutil.Require(t, filepath.IsLocal(file.Path), "file %q leaves the directory", file.Path)
			err := Write(dir, file, strings.NewReader("x"))
			var tooLong interface{ Timeout() bool }
			if errors.As(err, &tooLong) && strings.Contains(err.Error(), "name too long") {
				return
			}
			testutil.Must(t, err)
		}
	})
}
