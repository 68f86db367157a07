package volume_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/image/volume"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// layer packs a layer. A header without a type is a file with the content "content of " and its name.
func layer(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, header := range headers {
		content := ""
		if header.Typeflag == 0 {
			header.Typeflag, content = tar.TypeReg, "content of "+header.Name
		}
		if strings.HasPrefix(header.Name, ".wh.") {
			content = "" // the engine drops the content of a whiteout
		}
		header.Size = int64(len(content))
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		testutil.Must(t, writer.WriteHeader(&header))
		_, err := writer.Write([]byte(content))
		testutil.Must(t, err)
	}
	testutil.Must(t, writer.Close())
	return out.Bytes()
}

// load loads an image with these layers into the engine and returns its id.
func load(t *testing.T, engine *docker.Client, layers ...[]byte) string {
	t.Helper()
	name := fmt.Sprintf("image-volume-%d:%d", os.Getpid(), time.Now().UnixNano())
	var image dockerspec.DockerOCIImage
	image.OS, image.Architecture, image.RootFS.Type = "linux", "amd64", "layers"
	files := map[string][]byte{}
	manifest := struct {
		Config           string
		RepoTags, Layers []string
	}{RepoTags: []string{name}}
	for i, content := range layers {
		image.RootFS.DiffIDs = append(image.RootFS.DiffIDs, digest.FromBytes(content))
		manifest.Layers = append(manifest.Layers, fmt.Sprintf("%d.tar", i))
		files[manifest.Layers[i]] = content
	}
	config, err := json.Marshal(image)
	testutil.Must(t, err)
	sum := sha256.Sum256(config)
	manifest.Config = hex.EncodeToString(sum[:]) + ".json"
	files[manifest.Config] = config
	files["manifest.json"], err = json.Marshal([]any{manifest})
	testutil.Must(t, err)
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for name, content := range files {
		testutil.Must(t, writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := writer.Write(content)
		testutil.Must(t, err)
	}
	testutil.Must(t, errors.Join(writer.Close(), engine.LoadImage(t.Context(), &archive)))
	seen, err := engine.InspectImage(t.Context(), name)
	testutil.Must(t, err)
	t.Cleanup(func() {
		testutil.Check(t, engine.RemoveImage(context.WithoutCancel(t.Context()), name))
	})
	return seen.ID
}

// TestRigFiles extracts an image that a real engine saves. Its layers are stacked, one of them twice. They have
// whiteouts, owners, setuid bits, hard links and extended attributes.
func TestRigFiles(t *testing.T) {
	env := rigenv.Require(t)
	engine, err := docker.Dial(docker.Options{Host: env.DockerHost})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	dir, err := os.MkdirTemp(env.WorkDir, "volume")
	testutil.Must(t, err)
	store, err := volume.Open(volume.Options{Root: filepath.Join(dir, "images"), Engine: engine, Keep: time.Nanosecond})
	testutil.Must(t, err)
	defer store.Close()
	twice := layer(t, tar.Header{Name: "twice"})
	id := load(t, engine,
		layer(t, tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 7}, tar.Header{Name: "etc/hosts"},
			tar.Header{Name: "old"},
			tar.Header{Name: "sh", Mode: 0o6755, Uid: 1001, Gid: 1002},
			tar.Header{Name: "hard", Typeflag: tar.TypeLink, Linkname: "sh", Mode: 0o6755, Uid: 1001, Gid: 1002},
			tar.Header{Name: "marked", PAXRecords: map[string]string{"SCHILY.xattr.trusted.mark": "it is"}}),
		twice, layer(t, tar.Header{Name: ".wh.old"}, tar.Header{Name: ".wh.twice"}), twice,
	)
	path, release, err := store.Mount(t.Context(), id, "")
	testutil.Must(t, err)
	for name, want := range map[string]string{"etc/hosts": "content of etc/hosts", "twice": "content of twice",
		"hard": "content of sh"} {
		got, err := os.ReadFile(filepath.Join(path, name))
		testutil.Assert(t, err == nil && string(got) == want, "%s: %q, %v", name, got, err)
	}
	entries, err := os.ReadDir(path)
	testutil.Must(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	want := []string{"etc", "hard", "marked", "sh", "twice"}
	testutil.Assert(t, slices.Equal(names, want), "the image holds %v, want %v", names, want)
	info, err := os.Stat(filepath.Join(path, "sh"))
	testutil.Must(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	testutil.Assert(t, info.Mode() == 0o755|fs.ModeSetuid|fs.ModeSetgid && stat.Uid == 1001 && stat.Gid == 1002 &&
		stat.Nlink == 2, "sh: %v of %d:%d with %d names", info.Mode(), stat.Uid, stat.Gid, stat.Nlink)
	value := make([]byte, 16)
	if n, err := unix.Lgetxattr(filepath.Join(path, "marked"), "trusted.mark", value); err != nil ||
		string(value[:n]) != "it is" {
		t.Errorf("extended attribute: %q, %v", value[:max(n, 0)], err)
	}

	// A container that was never started holds the files. A real engine's list shows its mount.
	holder, err := engine.CreateContainer(t.Context(), docker.ContainerSpec{
		Name:   fmt.Sprintf("image-volume-%d", time.Now().UnixNano()),
		Config: &container.Config{Image: id, Cmd: []string{"/sh"}},
		Host: &container.HostConfig{
			Mounts: []mount.Mount{{Type: mount.TypeBind, Source: path, Target: "/image", ReadOnly: true}}},
	})
	testutil.Must(t, err)
	release()
	listed, err := engine.ListContainers(t.Context(), nil)
	testutil.Must(t, err)
	testutil.Assert(t, slices.ContainsFunc(listed, func(c container.Summary) bool {
		return c.ID == holder && slices.Contains(store.Mounted(c), id)
	}), "the engine's list does not show the mount")
	time.Sleep(100 * time.Millisecond) // time for a wrong collection to remove the files
	_, err = os.Stat(path)
	testutil.Check(t, err, "the files of a container that was never started")
	testutil.Must(t, engine.RemoveContainer(t.Context(), holder))
	store.Tidy()
	testutil.Until(t, "the files are gone", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
}
