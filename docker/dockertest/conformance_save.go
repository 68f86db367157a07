package dockertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// testSave checks that a saved image has the loaded layer, byte for byte.
func testSave(t *testing.T, s *suite) {
	name := s.name() + ":saved"
	testutil.Must(t, s.Engine.LoadImage(withPatience(t), bytes.NewReader(imageArchive(t, name, nativeArch))))
	t.Cleanup(func() { s.untag(t, name) })
	image, err := s.Engine.InspectImage(withPatience(t), name)
	testutil.Must(t, err)
	for _, ref := range []string{name, image.ID} {
		var saved bytes.Buffer
		err := s.Engine.SaveImage(withPatience(t), ref, &saved)
		testutil.Require(t, err == nil, "SaveImage %s: %v", ref, err)
		files, _, err := readArchive(&saved)
		testutil.Must(t, err)
		var manifests []struct{ Layers []string }
		err = json.Unmarshal(files["manifest.json"], &manifests)
		testutil.Require(t, err == nil && len(manifests) == 1 && len(manifests[0].Layers) == 1,
			"manifest.json: %s, %v", files["manifest.json"], err)
		testutil.Assert(t, bytes.Equal(files[manifests[0].Layers[0]], archive(t, file{"greeting", []byte("hello\n")})),
			"%s is %q", manifests[0].Layers[0], files[manifests[0].Layers[0]])
	}
	wantError(t, "saving an absent image", s.Engine.SaveImage(withPatience(t), s.name(), io.Discard),
		errdefs.ErrNotFound)
	nobody := "sha256:" + strings.Repeat("0", 64)
	wantError(t, "saving an unknown id", s.Engine.SaveImage(withPatience(t), nobody, io.Discard), errdefs.ErrNotFound)
	full := errors.New("the disk is full")
	wantError(t, "saving to a full disk", s.Engine.SaveImage(withPatience(t), name, brokenWriter{full}), full)
}

// brokenWriter fails each write.
type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }
