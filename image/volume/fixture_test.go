package volume

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// fixture is a store on an engine in memory.
type fixture struct {
	*Store
	t      *testing.T
	engine *dockertest.Engine
	images int
}

func newFixture(t *testing.T, keep time.Duration) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("files of other users need root")
	}
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root = t.TempDir()
	engine := dockertest.New(
		dockertest.Options{Features: features, Images: []dockertest.Image{{Names: []string{"busybox"}}}})
	t.Cleanup(engine.Close)
	f := &fixture{t: t, engine: engine}
	f.open(filepath.Join(t.TempDir(), "image-volumes"), keep)
	t.Cleanup(func() { f.Close() })
	return f
}

func (f *fixture) open(root string, keep time.Duration) {
	f.t.Helper()
	store, err := Open(Options{Root: root, Engine: f.engine, Keep: keep})
	testutil.Must(f.t, err)
	f.Store = store
}

// reopen closes the store and opens it again, like a restart of criadapter.
func (f *fixture) reopen() {
	f.t.Helper()
	f.Close()
	f.open(f.opts.Root, f.opts.Keep)
}

// entry is one entry of a layer.
type entry struct {
	tar.Header
	content string
}

func dir(name string, mode int64) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}}
}

func regular(name, content string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, content: content}
}

func symlink(name, target string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}}
}

func hardlink(name, target string) entry {
	return entry{Header: tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: target, Mode: 0o644}}
}

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		testutil.Must(t, writer.WriteHeader(&e.Header))
		_, err := writer.Write([]byte(e.content))
		testutil.Must(t, err)
	}
	testutil.Must(t, writer.Close())
	return out.Bytes()
}

// archiveOf returns an archive of docker save with one image of these layers.
func archiveOf(t *testing.T, tag string, layers ...[]byte) []byte {
	t.Helper()
	config := fmt.Sprintf(`{"os":"linux","architecture":"amd64","config":{"Labels":{"tag":%q}}}`, tag)
	files := []entry{regular("config.json", config)}
	var names []string
	for i, layer := range layers {
		names = append(names, fmt.Sprintf("%d/layer.tar", i))
		files = append(files, regular(names[i], string(layer)))
	}
	manifest, err := json.Marshal(
		[]map[string]any{{"Config": "config.json", "RepoTags": []string{tag}, "Layers": names}})
	testutil.Must(t, err)
	return pack(t, append(files, regular("manifest.json", string(manifest)))...)
}

// image loads an image of layers and returns its id.
func (f *fixture) image(layers ...[]entry) string {
	f.t.Helper()
	var tars [][]byte
	for _, layer := range layers {
		tars = append(tars, pack(f.t, layer...))
	}
	f.images++
	tag := fmt.Sprintf("volume:%d", f.images)
	testutil.Must(f.t, f.engine.LoadImage(f.t.Context(), bytes.NewReader(archiveOf(f.t, tag, tars...))))
	image, err := f.engine.InspectImage(f.t.Context(), tag)
	testutil.Must(f.t, err)
	return image.ID
}

// mount calls Mount, which must succeed.
func (f *fixture) mount(id, subPath string) (path string, release func()) {
	f.t.Helper()
	path, release, err := f.Mount(f.t.Context(), id, subPath)
	testutil.Must(f.t, err)
	return path, release
}

// container creates a container that has the path mounted.
func (f *fixture) container(path string) string {
	f.t.Helper()
	id, err := f.engine.CreateContainer(f.t.Context(), docker.ContainerSpec{
		Name:   fmt.Sprintf("c%d", time.Now().UnixNano()),
		Config: &container.Config{Image: "busybox"},
		Host: &container.HostConfig{
			Mounts: []mount.Mount{{Type: mount.TypeBind, Source: path, Target: "/image", ReadOnly: true}}},
	})
	testutil.Must(f.t, err)
	return id
}

func (f *fixture) removeContainer(id string) {
	f.t.Helper()
	if err := f.engine.RemoveContainer(f.t.Context(), id); err != nil && !errdefs.IsNotFound(err) {
		f.t.Fatal(err)
	}
}

// names returns the names in the store's directory.
func (f *fixture) names() []string {
	f.t.Helper()
	entries, err := os.ReadDir(f.opts.Root)
	testutil.Must(f.t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func wantContent(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	testutil.Assert(t, err == nil && string(got) == want, "%s: %q, %v; want %q", path, got, err, want)
}

func wantGone(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_, err := os.Lstat(path)
		testutil.Assert(t, os.IsNotExist(err), "%s still exists (%v)", path, err)
	}
}
