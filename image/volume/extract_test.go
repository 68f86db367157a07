package volume

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestLayersAreStacked(t *testing.T) {
	f := newFixture(t, 0)
	id := f.image(
		[]entry{
			dir("etc", 0o755), regular("etc/hosts", "of the image"), regular("etc/old", "old"),
			symlink("run", "/var/run"),
			dir("var/run", 0o755), dir("cache", 0o755), regular("cache/a", "a"), regular("cache/b", "b"),
			regular("replaced", "file"),
		},
		[]entry{
			regular("etc/.wh.old", ""), regular("cache/.wh..wh..opq", ""), regular("cache/c", "c"),
			dir("replaced", 0o755), regular("replaced/by", "a directory"), regular("run/pid", "1"),
			hardlink("etc/hosts2", "etc/hosts"),
		},
	)
	path, release := f.mount(id, "")
	defer release()
	for name, want := range map[string]string{
		"etc/hosts": "of the image", "etc/hosts2": "of the image", "cache/c": "c", "replaced/by": "a directory",
		"var/run/pid": "1",
	} {
		wantContent(t, filepath.Join(path, name), want)
	}
	wantGone(t, path+"/etc/old", path+"/cache/a", path+"/cache/b", path+"/etc/.wh.old", path+"/.dockerenv",
		path+"/proc")
	if info, err := os.Stat(f.opts.Root); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("other users can enter the store: %v, %v", info.Mode(), err)
	}
}

func TestAttributesAreKept(t *testing.T) {
	f := newFixture(t, 0)
	setuid := regular("setuid", "program")
	setuid.Mode, setuid.Uid, setuid.Gid = 0o4755, 1001, 1002
	device := entry{Header: tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3, Mode: 0o666}}
	private := dir("private", 0o700)
	private.Uid = 1003
	sticky := dir("tmp", 0o1777)
	marked := regular("marked", "x")
	marked.PAXRecords = map[string]string{"SCHILY.xattr.trusted.test": "value"}
	path, release := f.mount(f.image([]entry{setuid, device, private, sticky, marked}), "")
	defer release()
	for name, want := range map[string]struct {
		mode     fs.FileMode
		uid, gid uint32
	}{
		"setuid":  {0o755 | fs.ModeSetuid, 1001, 1002},
		"null":    {0o666 | fs.ModeDevice | fs.ModeCharDevice, 0, 0},
		"private": {0o700 | fs.ModeDir, 1003, 0},
		"tmp":     {0o777 | fs.ModeDir | fs.ModeSticky, 0, 0},
		".":       {0o755 | fs.ModeDir, 0, 0},
	} {
		info, err := os.Lstat(filepath.Join(path, name))
		if err != nil {
			t.Error(err)
			continue
		}
		stat := info.Sys().(*syscall.Stat_t)
		testutil.Assert(t, info.Mode() == want.mode && stat.Uid == want.uid && stat.Gid == want.gid,
			"%s: %v of %d:%d, want %v of %d:%d", name, info.Mode(), stat.Uid, stat.Gid, want.mode, want.uid, want.gid)
	}
	value := make([]byte, 16)
	n, err := unix.Lgetxattr(filepath.Join(path, "marked"), "trusted.test", value)
	testutil.Assert(t, err == nil && string(value[:n]) == "value",
		"extended attribute: %q, %v", value[:max(n, 0)], err)
}

// TestImageFilesStayInTheirDirectory extracts images that try to read, write or remove files outside of their
// directory.
func TestImageFilesStayInTheirDirectory(t *testing.T) {
	f := newFixture(t, 0)
	outside := t.TempDir()
	testutil.Must(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600))
	for name, layers := range map[string][][]entry{
		"a path":                 {{regular("../../../../../../../../.."+outside+"/evil", "x")}},
		"a link out":             {{symlink("out", outside), regular("out/evil", "x")}},
		"a link of a layer":      {{symlink("out", outside)}, {regular("out/evil", "x")}},
		"a relative link":        {{symlink("up", "../../../../../../../../.."+outside), regular("up/evil", "x")}},
		"a whiteout":             {{symlink("out", outside)}, {regular("out/.wh.secret", "")}},
		"an opaque directory":    {{symlink("out", outside)}, {regular("out/.wh..wh..opq", "")}},
		"a hard link":            {{hardlink("evil", outside+"/secret")}},
		"a hard link over links": {{symlink("out", outside), hardlink("evil", "out/secret")}},
	} {
		path, release, err := f.Mount(t.Context(), f.image(layers...), "")
		if err == nil {
			release()
			if content, err := os.ReadFile(filepath.Join(path, "evil")); err == nil && string(content) == "secret" {
				t.Errorf("%s: a file from outside is in the image", name)
			}
		}
		wantGone(t, filepath.Join(outside, "evil"))
		wantContent(t, filepath.Join(outside, "secret"), "secret")
	}
}

func TestImagesThatCannotBeExtracted(t *testing.T) {
	f := newFixture(t, 0)
	good := regular("good", strings.Repeat("x", 1000))
	half := pack(t, good)[:700]
	for name, layer := range map[string][]byte{
		"no archive": []byte("this is not an archive, but it is long enough to be one"), "half": half} {
		archive := archiveOf(t, "bad:"+strings.Fields(name)[0], layer)
		testutil.Must(t, f.engine.LoadImage(t.Context(), bytes.NewReader(archive)))
		image, err := f.engine.InspectImage(t.Context(), "bad:"+strings.Fields(name)[0])
		testutil.Must(t, err)
		_, _, err = f.Mount(t.Context(), image.ID, "")
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), image.ID), "%s: %v", name, err)
	}
	_, _, err := f.Mount(t.Context(), "sha256:"+strings.Repeat("0", 64), "")
	testutil.Fails(t, err, errdefs.IsNotFound, "an image that is not there")
	for _, id := range []string{"", "busybox", "sha256:..", "sha512:" + strings.Repeat("0", 128)} {
		_, _, err := f.Mount(t.Context(), id, "")
		testutil.Fails(t, err, errdefs.IsInvalidArgument, "id %q", id)
	}
	names := f.names()
	testutil.Assert(t, len(names) <= 0, "left behind: %v", names)
}

// TestArchives reads archives as engines of different versions write them.
func TestArchives(t *testing.T) {
	if testutil.AsRoot(t) {
		return
	}
	layer := pack(t, regular("greeting", "hello"))
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, err := writer.Write(layer)
	testutil.Must(t, err)
	testutil.Must(t, writer.Close())
	layers := func(names string) entry { return regular("manifest.json", `[{"Layers":[`+names+`]}]`) }
	for name, c := range map[string]struct {
		files []entry
		want  int // layers; 0 for an error
	}{
		"links of Docker 20.10": {
			[]entry{regular("a/layer.tar", string(layer)), symlink("b/layer.tar", "../a/layer.tar"),
				layers(`"a/layer.tar","b/layer.tar"`)}, 2},
		"blobs of Docker 25": {[]entry{layers(`"blobs/sha256/a"`), regular("blobs/sha256/a", string(layer))},
			1},
		"blobs of containerd's store": {
			[]entry{regular("blobs/sha256/a", zipped.String()), layers(`"./blobs/sha256/a"`)}, 1},
		"a layer is missing": {[]entry{layers(`"a"`)}, 0},
		"a link leads out":   {[]entry{symlink("a", "../../etc/passwd"), layers(`"a"`)}, 0},
		"no manifest":        {[]entry{regular("a", string(layer))}, 0},
		"two images":         {[]entry{regular("manifest.json", `[{},{}]`)}, 0},
		"no JSON":            {[]entry{regular("manifest.json", `?`)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.CreateTemp(t.TempDir(), "")
			testutil.Must(t, err)
			defer file.Close()
			_, err = file.Write(pack(t, c.files...))
			testutil.Must(t, err)
			saved, err := openArchive(file)
			testutil.Must(t, err)
			got, err := saved.layers()
			if c.want == 0 {
				testutil.Assert(t, errdefs.IsDataLoss(err), "%v", err)
				return
			}
			testutil.Require(t, err == nil && len(got) == c.want, "%d layers, %v", len(got), err)
			for _, layer := range got {
				dir := t.TempDir()
				_, err := unpackLayer(dir, layer)
				testutil.Must(t, err)
				wantContent(t, filepath.Join(dir, "greeting"), "hello")
			}
		})
	}
}
