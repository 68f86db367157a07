package dockertest

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func testPause(t *testing.T, s *suite) {
	id := s.start(t, s.shell(longCommand))
	ctx := withPatience(t)
	testutil.Must(t, s.Engine.PauseContainer(ctx, id))
	state := s.inspect(t, id).State
	testutil.Assert(t, state.Paused && state.Running, "a paused container is %+v", state)
	wantError(t, "paused twice", s.Engine.PauseContainer(ctx, id), errdefs.ErrConflict)
	testutil.Must(t, s.Engine.UnpauseContainer(ctx, id))
	state = s.inspect(t, id).State
	testutil.Assert(t, !state.Paused && state.Running, "an unpaused container is %+v", state)
	testutil.Assert(t, s.Engine.UnpauseContainer(ctx, id) != nil, "a container that is not paused was unpaused")
	wantError(t, "no such container", s.Engine.PauseContainer(ctx, s.Prefix+"-none"), errdefs.ErrNotFound)
}

// testNoCheckpoint checks that an engine that cannot checkpoint refuses a checkpoint, and that any engine copies files.
func testNoCheckpoint(t *testing.T, s *suite) {
	id := s.start(t, s.shell(longCommand))
	ctx := withPatience(t)
	features, err := s.Engine.Features(ctx)
	testutil.Must(t, err)
	if features.NoCheckpoint == "" {
		t.Log("this engine can checkpoint")
	} else if err := s.Engine.CreateCheckpoint(ctx, id, t.TempDir(), "name"); err == nil {
		t.Error("an engine that cannot checkpoint wrote a checkpoint")
	}
	testutil.Assert(t, s.Engine.RestoreContainer(ctx, s.create(t, s.shell(longCommand)), "none") != nil,
		"a missing checkpoint was restored")
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	testutil.Must(t, w.WriteHeader(&tar.Header{Name: "copied", Mode: 0o644}))
	hardLink := tar.Header{Name: "linked", Linkname: "copied", Typeflag: tar.TypeLink, Mode: 0o644}
	testutil.Must(t, w.WriteHeader(&hardLink))
	testutil.Must(t, w.Close())
	testutil.Check(t, s.Engine.CopyToContainer(ctx, id, "/", &archive))
	if _, err := s.Engine.ListChanges(ctx, id); err != nil {
		t.Error(err)
	}
	_, err = s.Engine.ListChanges(ctx, s.Prefix+"-none")
	wantError(t, "no such container", err, errdefs.ErrNotFound)
}
