package volume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPartsStayInTheImage(t *testing.T) {
	f := newFixture(t, 0)
	id := f.image([]entry{
		dir("opt/models", 0o755), regular("opt/models/small", "s"), symlink("current", "/opt/models"),
		symlink("out", "../../../../etc"),
		symlink("loop", "loop"), dir("etc", 0o755), regular("etc/hosts", "the image's"),
		symlink("opt/latest", "models/small"), symlink("gone", "/no/such"),
	})
	all, release := f.mount(id, "")
	defer release()
	for subPath, want := range map[string]string{
		"opt/models": "opt/models", "opt/models/small": "opt/models/small", "current": "opt/models",
		"current/small": "opt/models/small",
		"out/hosts":     "etc/hosts", "opt/latest": "opt/models/small", ".": "", "opt/../etc": "etc",
		"opt//models/": "opt/models", "current/..": "opt",
	} {
		if got, release := f.mount(id, subPath); got != filepath.Join(all, want) {
			t.Errorf("%s: %s, want %s", subPath, got, filepath.Join(all, want))
		} else {
			release()
		}
	}
	for subPath, is := range map[string]func(error) bool{
		"no/such": errdefs.IsNotFound, "opt/models/small/x": errdefs.IsNotFound, "gone": errdefs.IsNotFound,
		"loop": errdefs.IsInvalidArgument,
		"..":   errdefs.IsInvalidArgument, "/etc": errdefs.IsInvalidArgument, "opt/../../x": errdefs.IsInvalidArgument,
	} {
		_, _, err := f.Mount(t.Context(), id, subPath)
		testutil.Assert(t, is(err), "%s: %v", subPath, err)
	}
}

func TestOneExtractionServesAll(t *testing.T) {
	f := newFixture(t, 0)
	id := f.image([]entry{regular("a", "a")})
	faults := f.engine.Calls("SaveImage")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			path, release, err := f.Mount(t.Context(), id, "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			wantContent(t, path, "a")
		})
	}
	group.Wait()
	got := f.engine.Calls("SaveImage") - faults
	testutil.Assert(t, got == 1, "the image was saved %d times", got)
}

// The deadline of the first call ends before the engine answers. The extraction goes on, and the second call finds it.
func TestExtractionOutlivesItsCaller(t *testing.T) {
	f := newFixture(t, 0)
	id := f.image([]entry{regular("a", "a")})
	f.engine.Inject("SaveImage", dockertest.Fault{Delay: 300 * time.Millisecond, Times: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := f.Mount(ctx, id, "")
	testutil.Require(t, err != nil && ctx.Err() != nil, "%v", err)
	path, release := f.mount(id, "")
	defer release()
	wantContent(t, path+"/a", "a")
}

func TestFilesGoWithTheLastContainer(t *testing.T) {
	f := newFixture(t, time.Nanosecond)
	id := f.image([]entry{dir("sub", 0o755), regular("sub/a", "a")})
	path, release := f.mount(id, "")
	first := f.container(path)
	release()
	part, release := f.mount(id, "sub")
	second := f.container(part)
	release()

	f.removeContainer(first)
	f.reopen() // which collects unused files
	_, err := f.collect(t.Context())
	testutil.Check(t, err)
	wantContent(t, path+"/sub/a", "a")
	f.removeContainer(second)
	f.Tidy()
	testutil.Until(t, "the files are gone", func() bool { return len(f.names()) == 0 })
	path, release = f.mount(id, "") // and are extracted again
	defer release()
	wantContent(t, path+"/sub/a", "a")
}

// Files stay between Mount and its release, before the engine lists the container.
func TestHeldFilesStay(t *testing.T) {
	f := newFixture(t, time.Nanosecond)
	path, release := f.mount(f.image([]entry{regular("a", "a")}), "")
	again, err := f.collect(t.Context())
	testutil.Assert(t, err == nil && again != 0, "%v, %v", again, err)
	wantContent(t, path+"/a", "a")
	name, since := filepath.Base(filepath.Dir(path)), f.now()
	f.hold(name) // two calls of Mount begin after since, when the list was requested, and end before remove
	f.hold(name)
	release()
	f.release(name)
	f.release(name)
	removed, err := f.remove(t.Context(), name, since)
	testutil.Assert(t, err == nil && !removed, "removed %v, %v", removed, err)
	testutil.Until(t, "the files are gone", func() bool { return len(f.names()) == 0 })
}

// TestFilesOfAnUnlistedContainerStay releases a directory after a list that lacks the container and before the removal.
func TestFilesOfAnUnlistedContainerStay(t *testing.T) {
	f := newFixture(t, time.Nanosecond)
	path, release := f.mount(f.image([]entry{regular("a", "a")}), "")
	f.Close() // stops the collections in the background
	name, asked := filepath.Base(filepath.Dir(path)), f.now()
	release()
	removed, err := f.remove(t.Context(), name, asked)
	testutil.Assert(t, err == nil && !removed, "removed %v, %v", removed, err)
	wantContent(t, path+"/a", "a")
	removed, err = f.remove(t.Context(), name, f.now())
	testutil.Assert(t, err == nil && removed, "by the next collection: removed %v, %v", removed, err)
}

func TestFilesStayForAWhile(t *testing.T) {
	f := newFixture(t, time.Hour)
	path, release := f.mount(f.image([]entry{regular("a", "a")}), "")
	f.Close() // stops the collections in the background
	release()
	again, err := f.collect(t.Context())
	testutil.Assert(t, err == nil && again >= 59*time.Minute && again <= time.Hour, "%v, %v", again, err)
	wantContent(t, path+"/a", "a")
	old := time.Now().Add(-2 * time.Hour)
	testutil.Must(t, os.Chtimes(filepath.Dir(path), old, old))
	again, err = f.collect(t.Context())
	testutil.Assert(t, err == nil && again == 0, "%v, %v", again, err)
	wantGone(t, filepath.Dir(path))
}

// After the clock was set back by years, files must not stay for years.
func TestFilesFromTheFutureStayForAWhile(t *testing.T) {
	f := newFixture(t, time.Hour)
	path, release := f.mount(f.image([]entry{regular("a", "a")}), "")
	f.Close() // stops the collections in the background
	release()
	future := time.Now().Add(1000 * time.Hour)
	testutil.Must(t, os.Chtimes(filepath.Dir(path), future, future))
	again, err := f.collect(t.Context())
	testutil.Assert(t, err == nil && again == time.Hour, "%v, %v", again, err)
	wantContent(t, path+"/a", "a")
	info, err := os.Stat(filepath.Dir(path))
	testutil.Must(t, err)
	testutil.Assert(t, !info.ModTime().After(time.Now()), "the files' time is still %v", info.ModTime())
}

// No files are removed while the engine does not list its containers.
func TestNothingIsRemovedWithoutTheEnginesList(t *testing.T) {
	f := newFixture(t, time.Nanosecond)
	restore := f.engine.Inject("ListContainers", dockertest.Fault{})
	path, release := f.mount(f.image([]entry{regular("a", "a")}), "")
	release()
	_, err := f.collect(t.Context())
	testutil.Assert(t, errdefs.IsUnavailable(err), "%v", err)
	wantContent(t, path+"/a", "a")
	restore()
	f.Tidy()
	testutil.Until(t, "the files are gone", func() bool { return len(f.names()) == 0 })
}

func TestCrashLeavesNothing(t *testing.T) {
	f := newFixture(t, time.Hour)
	path, release := f.mount(f.image([]entry{regular("a", "a")}), "")
	release()
	for _, name := range []string{".making-1", ".removing-2"} {
		testutil.Must(t, os.MkdirAll(filepath.Join(f.opts.Root, name, filesName), 0o700))
	}
	f.reopen()
	names := f.names()
	testutil.Assert(t, len(names) == 1, "left: %v", names)
	wantContent(t, path+"/a", "a")
}

func TestMounted(t *testing.T) {
	s := &Store{opts: Options{Root: "/var/lib/x/image-volumes"}}
	hex := strings.Repeat("ab", 32)
	got := s.Mounted(container.Summary{Mounts: []container.MountPoint{
		{Type: mount.TypeBind, Source: "/var/lib/x/image-volumes/" + hex + "/fs/sub"},
		{Type: mount.TypeBind, Source: "/var/lib/x/image-volumes"},
		{Type: mount.TypeBind, Source: "/var/lib/x/image-volumes-of-others/" + hex},
		{Type: mount.TypeVolume, Name: "data"},
		{Type: mount.TypeImage, Name: "sha256:1", Source: "/var/lib/docker/overlay2/x/merged"},
	}})
	want := []string{"sha256:" + hex, "sha256:1"}
	testutil.Assert(t, slices.Equal(got, want), "got %v, want %v", got, want)
}
