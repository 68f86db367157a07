package dump

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestWriteAndRead(t *testing.T) {
	want := Container{
		Config: Config{ID: "1", Name: "k8s_a", Image: "busybox", ImageRef: "sha256:1",
			CreatedTime: time.Unix(5, 0).UTC(), CheckpointedAt: time.Unix(6, 0).UTC()},
		Deleted: []string{"/etc/motd"},
		Spec:    []byte(`{"ociVersion":"1.0.2"}`), Status: []byte(`{"id":"1"}`), CRI: []byte(`{}`),
	}
	dir := t.TempDir()
	testutil.Must(t, want.Write(dir))
	_, err := Read(dir)
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "without the processes: %v", err)
	testutil.Must(t, os.Mkdir(filepath.Join(dir, Processes), 0o700))
	got, err := Read(dir)
	testutil.Assert(t, err == nil && reflect.DeepEqual(got, want), "got %+v, %v", got, err)
}

// A restore must not follow a link to a file of the node, or wait for a pipe.
func TestReadRefusesOtherThanPlainFiles(t *testing.T) {
	link := func(path string) error { return os.Symlink("/etc/hostname", path) }
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	for name, add := range map[string]func(dir string) error{
		"a link to files":     func(dir string) error { return link(filepath.Join(dir, Files)) },
		"a pipe with files":   func(dir string) error { return pipe(filepath.Join(dir, Files)) },
		"a link to processes": func(dir string) error { return link(filepath.Join(dir, Processes, "pages-1.img")) },
	} {
		dir := t.TempDir()
		testutil.Must(t, Container{Spec: []byte("{}"), Status: []byte("{}"), CRI: []byte("{}")}.Write(dir))
		testutil.Must(t, os.Mkdir(filepath.Join(dir, Processes), 0o700))
		_, err := Read(dir)
		testutil.Check(t, err, "without %s", name)
		testutil.Must(t, add(dir))
		_, err = Read(dir)
		testutil.Fails(t, err, errdefs.IsInvalidArgument, "with %s", name)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"id":"1"}`), []byte(`["/a"]`))
	f.Add([]byte(`null`), []byte(`{`))
	f.Fuzz(func(t *testing.T, config, deleted []byte) {
		dir := t.TempDir()
		for name, content := range map[string]string{
			configFile: string(config), deletedFile: string(deleted), specFile: "{}", statusFile: "{}", criFile: "{}",
			Processes + "/inventory.img": "",
		} {
			testutil.WriteFile(t, filepath.Join(dir, name), content)
		}
		_, err := Read(dir)
		testutil.Assert(t, err == nil || errdefs.IsInvalidArgument(err), "%v has another type", err)
	})
}
