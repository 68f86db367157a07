package dockertest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	api "github.com/moby/moby/api/types/container"
	"github.com/opencontainers/go-digest"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// tag gives the suite's image one more name, which the test's end removes.
func (s *suite) tag(t *testing.T, name string) {
	t.Helper()
	testutil.Must(t, s.Engine.TagImage(withPatience(t), s.Image, name), "TagImage")
	t.Cleanup(func() { s.untag(t, name) })
}

func (s *suite) untag(t *testing.T, name string) {
	err := s.Engine.RemoveImage(withPatience(t), name)
	testutil.Assert(t, err == nil || errdefs.IsNotFound(err), "RemoveImage: %v", err)
}

func testImageNames(t *testing.T, s *suite) {
	name := s.name() + ":one"
	s.tag(t, name)
	original, err := s.Engine.InspectImage(withPatience(t), s.Image)
	testutil.Must(t, err)
	for _, ref := range []string{name, original.ID} {
		got, err := s.Engine.InspectImage(withPatience(t), ref)
		testutil.Require(t, err == nil, "InspectImage %s: %v", ref, err)
		testutil.Assert(t, got.ID == original.ID && slices.Contains(got.RepoTags, name),
			"InspectImage %s: got %s, %v", ref, got.ID, got.RepoTags)
	}
	list, err := s.Engine.ListImages(withPatience(t))
	testutil.Must(t, err)
	listed := false
	for _, image := range list {
		listed = listed || image.ID == original.ID && slices.Contains(image.RepoTags, name)
	}
	testutil.Assert(t, listed, "ListImages does not have %s", name)
	testutil.Must(t, s.Engine.RemoveImage(withPatience(t), name), "RemoveImage")
	_, err = s.Engine.InspectImage(withPatience(t), name)
	wantError(t, "inspecting a removed name", err, errdefs.ErrNotFound)
	_, err = s.Engine.InspectImage(withPatience(t), s.Image)
	testutil.Check(t, err, "the image went with one of its names")
}

func testImageRefused(t *testing.T, s *suite) {
	absent := s.name()
	_, err := s.Engine.InspectImage(withPatience(t), absent)
	wantError(t, "inspecting an absent image", err, errdefs.ErrNotFound)
	wantError(t, "removing an absent image", s.Engine.RemoveImage(withPatience(t), absent), errdefs.ErrNotFound)
	wantError(t, "naming an absent image", s.Engine.TagImage(withPatience(t), absent, absent+":x"), errdefs.ErrNotFound)
	wantError(t, "a name with a digest",
		s.Engine.TagImage(withPatience(t), s.Image, absent+"@sha256:"+strings.Repeat("a", 64)),
		errdefs.ErrInvalidArgument)

	s.tag(t, s.name()+"-a:x")
	s.tag(t, s.name()+"-b:x")
	image, err := s.Engine.InspectImage(withPatience(t), s.Image)
	testutil.Must(t, err)
	wantError(t, "removing an id with names in two repositories", s.Engine.RemoveImage(withPatience(t), image.ID),
		errdefs.ErrConflict)
}

// testImageForceRemoved checks that an image is removed at once with all its names, even if a stopped container uses
// it. A running container keeps its image.
func testImageForceRemoved(t *testing.T, s *suite) {
	names := []string{s.name() + ":loaded", s.name() + ":a"}
	names = append(names, strings.TrimSuffix(names[1], "a")+"b")
	for _, name := range names {
		t.Cleanup(func() { s.untag(t, name) })
	}
	testutil.Must(t, s.Engine.LoadImage(withPatience(t), bytes.NewReader(imageArchive(t, names[0], nativeArch))))
	for _, name := range names[1:] {
		testutil.Must(t, s.Engine.TagImage(withPatience(t), names[0], name))
	}
	image, err := s.Engine.InspectImage(withPatience(t), names[0])
	testutil.Must(t, err)
	s.create(t, docker.ContainerSpec{Name: s.name(), Config: &api.Config{Image: names[0]}})
	wantError(t, "removing an id with three names", s.Engine.RemoveImage(withPatience(t), image.ID),
		errdefs.ErrConflict)
	testutil.Must(t, s.Engine.ForceRemoveImage(withPatience(t), image.ID), "ForceRemoveImage")
	for _, ref := range append(names, image.ID) {
		_, err := s.Engine.InspectImage(withPatience(t), ref)
		wantError(t, "inspecting "+ref+" after the removal", err, errdefs.ErrNotFound)
	}
	wantError(t, "removing it again", s.Engine.ForceRemoveImage(withPatience(t), image.ID), errdefs.ErrNotFound)

	s.tag(t, s.name()+":running")
	s.start(t, s.shell("exec sleep 1000"))
	running, err := s.Engine.InspectImage(withPatience(t), s.Image)
	testutil.Must(t, err)
	wantError(t, "removing the image of a running container", s.Engine.ForceRemoveImage(withPatience(t), running.ID),
		errdefs.ErrConflict)
	after, err := s.Engine.InspectImage(withPatience(t), s.Image)
	testutil.Assert(t, err == nil && slices.Equal(after.RepoTags, running.RepoTags) &&
		slices.Equal(after.RepoDigests, running.RepoDigests),
		"the running container's image was %v, is %v, %v", running, after, err)
}

func testLoad(t *testing.T, s *suite) {
	testutil.Assert(t, s.Engine.LoadImage(withPatience(t), strings.NewReader("this is not an archive")) != nil,
		"a text that is no archive loads")
	w := s.watch(t, time.Time{})
	name := s.name() + ":loaded"
	archive := imageArchive(t, name, nativeArch)
	var ids []string
	for range 2 {
		testutil.Must(t, s.Engine.LoadImage(withPatience(t), bytes.NewReader(archive)), "LoadImage")
		image, err := s.Engine.InspectImage(withPatience(t), name)
		testutil.Must(t, err)
		ids = append(ids, image.ID)
		testutil.Assert(t, image.Config != nil && image.Config.User == "1234" && image.Config.Labels["from"] == "image",
			"the loaded image's configuration is %+v", image.Config)
		testutil.Must(t, s.Engine.RemoveImage(withPatience(t), name), "RemoveImage")
	}
	testutil.Assert(t, ids[0] == ids[1], "one archive loaded twice has the ids %v", ids)
	testutil.Until(t, "an event reports the image", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.events, func(e docker.Event) bool { return e.Kind == docker.ImageChanged })
	})
}

// testInherit checks which settings a container inherits from its image.
func testInherit(t *testing.T, s *suite) {
	name := s.name() + ":loaded"
	testutil.Must(t, s.Engine.LoadImage(withPatience(t), bytes.NewReader(imageArchive(t, name, nativeArch))))
	t.Cleanup(func() { s.untag(t, name) })
	id := s.create(t, docker.ContainerSpec{Name: s.name(), Config: &api.Config{
		Image: name, Labels: map[string]string{"own": "label"}, Env: []string{"OWN=1"},
	}})
	got := s.inspect(t, id)
	testutil.Assert(t, got.Config.Labels["from"] == "image" && got.Config.Labels["own"] == "label" &&
		len(got.Config.Labels) == 2, "labels: %v", got.Config.Labels)
	testutil.Assert(t, slices.Contains(got.Config.Env, "FROM=image") && slices.Contains(got.Config.Env, "OWN=1"),
		"environment: %v", got.Config.Env)
	testutil.Assert(t, got.Config.User == "1234" && got.Config.StopSignal == "SIGINT" && got.Path == "/program" &&
		slices.Equal(got.Args, []string{"argument"}),
		"user %q, stop signal %q, command %q %q", got.Config.User, got.Config.StopSignal, got.Path, got.Args)
	wantError(t, "removing an image in use", s.Engine.RemoveImage(withPatience(t), name), errdefs.ErrConflict)
}

// testForeignImage checks that a container can be created from another platform's image, since emulation may run it.
func testForeignImage(t *testing.T, s *suite) {
	name := s.name() + ":loaded"
	testutil.Must(t, s.Engine.LoadImage(withPatience(t), bytes.NewReader(imageArchive(t, name, "riscv64"))))
	t.Cleanup(func() { s.untag(t, name) })
	id := s.create(t, docker.ContainerSpec{Name: s.name(), Config: &api.Config{Image: name}})
	got := s.inspect(t, id)
	testutil.Assert(t, got.Path == "/program", "the command is %q", got.Path)
}

func testPull(t *testing.T, s *suite) {
	signs := 0
	err := s.Engine.PullImage(withPatience(t), s.Pullable,
		docker.PullOptions{Progress: func(docker.PullPhase) { signs++ }})
	testutil.Must(t, err, "PullImage")
	testutil.Assert(t, signs != 0, "a pull reports no progress")
	t.Cleanup(func() { s.untag(t, s.Pullable) })
	image, err := s.Engine.InspectImage(withPatience(t), s.Pullable)
	testutil.Must(t, err)
	testutil.Require(t, len(image.RepoDigests) != 0, "a pulled image has no digest")
	testutil.Check(t, s.Engine.PullImage(withPatience(t), image.RepoDigests[0], docker.PullOptions{}),
		"pulling by digest")
	wantError(t, "pulling an absent image", s.Engine.PullImage(withPatience(t), s.Absent, docker.PullOptions{}),
		errdefs.ErrNotFound)
}

// nativeArch is the architecture of the images that the suite makes.
const nativeArch = "amd64"

// imageArchive returns an image with one file in the format of docker save. Its bytes are the same each time.
func imageArchive(t *testing.T, name, arch string) []byte {
	t.Helper()
	layer := archive(t, file{"greeting", []byte("hello\n")})
	var image dockerspec.DockerOCIImage
	image.OS, image.Architecture = "linux", arch
	image.RootFS.Type = "layers"
	image.RootFS.DiffIDs = []digest.Digest{digest.FromBytes(layer)}
	image.Config.Labels = map[string]string{"from": "image"}
	image.Config.User, image.Config.StopSignal = "1234", "SIGINT"
	image.Config.Env = []string{"FROM=image"}
	image.Config.Entrypoint, image.Config.Cmd = []string{"/program"}, []string{"argument"}
	config, err := json.Marshal(image)
	testutil.Must(t, err)
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal(
		[]map[string]any{{"Config": configName, "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	testutil.Must(t, err)
	return archive(t, file{configName, config}, file{"layer.tar", layer}, file{"manifest.json", manifest})
}

type file struct {
	name    string
	content []byte
}

func archive(t *testing.T, files ...file) []byte {
	t.Helper()
	var buffer bytes.Buffer
	writer := tar.NewWriter(&buffer)
	for _, f := range files {
		testutil.Must(t, writer.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content))}))
		_, err := writer.Write(f.content)
		testutil.Must(t, err)
	}
	testutil.Must(t, writer.Close())
	return buffer.Bytes()
}
