package cni

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func (s *sandbox) expect(n *Network, network string) {
	s.t.Helper()
	testutil.Until(s.t, "network "+network, func() bool { return n.Config().Name == network })
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		testutil.Must(t, err)
	}
}

func TestConfigurationIsFollowed(t *testing.T) {
	s := newSandbox(t)
	s.plugin("one")
	s.plugin("two")
	n := s.network()
	status := func() error { return n.Status(context.Background()) }
	err := status()
	testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), s.conf), "empty directory: %v", err)

	s.configure("10-a.conflist", listA)
	s.expect(n, "a")
	testutil.Check(t, status(), "configured")
	s.configure("05-b.conflist", listB)
	s.expect(n, "b")

	testutil.WriteFile(t, filepath.Join(s.conf, ".new"), singleC)
	must(t, os.Rename(filepath.Join(s.conf, ".new"), filepath.Join(s.conf, "01-c.conf")))
	s.expect(n, "c")

	s.configure("01-c.conf", "{")
	s.expect(n, "b")
	c := n.Config()
	testutil.Assert(t, len(c.Skipped) == 1 && strings.HasSuffix(c.Skipped[0].File, "01-c.conf"),
		"skipped: %+v", c.Skipped)
	must(t, os.Remove(filepath.Join(s.conf, "05-b.conflist")))
	s.expect(n, "a")

	must(t, os.Remove(filepath.Join(s.conf, "10-a.conflist")))
	s.expect(n, "")
	if err := status(); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "01-c.conf") {
		t.Errorf("only a broken file: %v", err)
	}
	_, err = n.Add(context.Background(), testPod("p"))
	testutil.Fails(t, err, errdefs.IsUnavailable, "Add without a configuration")
}

func TestDirMayComeAndGo(t *testing.T) {
	s := newSandbox(t)
	parent := filepath.Dir(s.conf)
	must(t, os.RemoveAll(parent))
	n := s.network()
	testutil.Fails(t, n.Status(context.Background()), errdefs.IsUnavailable, "no directory")
	for range 3 {
		must(t, os.MkdirAll(s.conf, 0o755))
		s.configure("a.conflist", listA)
		s.expect(n, "a")
		must(t, os.RemoveAll(s.conf))
		s.expect(n, "")
		must(t, os.Mkdir(s.conf, 0o755))
		s.configure("b.conflist", listB)
		s.expect(n, "b")
		must(t, os.RemoveAll(parent))
		s.expect(n, "")
	}
}

func TestDirMayBeReplaced(t *testing.T) {
	s := newSandbox(t)
	s.configure("a.conflist", listA)
	n := s.network()
	s.expect(n, "a")

	next := s.conf + ".next"
	must(t, os.Mkdir(next, 0o755))
	testutil.WriteFile(t, filepath.Join(next, "b.conflist"), listB)
	must(t, os.Rename(s.conf, s.conf+".old"), os.Rename(next, s.conf))
	s.expect(n, "b")
	// The directory at the path is watched now, not the one that was moved away.
	testutil.WriteFile(t, filepath.Join(s.conf+".old", "0.conf"), singleC)
	s.configure("a.conflist", listA)
	s.expect(n, "a")

	parent := filepath.Dir(s.conf)
	must(t, os.Rename(parent, parent+".old"))
	s.expect(n, "")
	must(t, os.Rename(parent+".old", parent))
	s.expect(n, "a")
}

func TestDirMayBeASymlink(t *testing.T) {
	s := newSandbox(t)
	must(t, os.Remove(s.conf))
	one, two := t.TempDir(), t.TempDir()
	testutil.WriteFile(t, filepath.Join(one, "a.conflist"), listA)
	testutil.WriteFile(t, filepath.Join(two, "b.conflist"), listB)
	must(t, os.Symlink(one, s.conf))
	n := s.network()
	s.expect(n, "a")
	must(t, os.Symlink(two, s.conf+".new"), os.Rename(s.conf+".new", s.conf))
	s.expect(n, "b")
	testutil.WriteFile(t, filepath.Join(two, "0.conf"), singleC)
	s.expect(n, "c")
}

// A kubelet updates a mounted ConfigMap by swapping the symlink ..data.
func TestConfigMaps(t *testing.T) {
	mount := func(t *testing.T, dir, content, version string) {
		must(t, os.MkdirAll(filepath.Join(dir, "..v"+version), 0o755))
		testutil.WriteFile(t, filepath.Join(dir, "..v"+version, "net.conflist"), content)
		must(t, os.Symlink("..v"+version, filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	t.Run("mounted on the directory", func(t *testing.T) {
		s := newSandbox(t)
		mount(t, s.conf, listA, "1")
		must(t, os.Symlink("..data/net.conflist", filepath.Join(s.conf, "net.conflist")))
		n := s.network()
		s.expect(n, "a")
		mount(t, s.conf, listB, "2")
		s.expect(n, "b")
	})
	t.Run("linked from the directory", func(t *testing.T) {
		s := newSandbox(t)
		elsewhere := t.TempDir()
		mount(t, elsewhere, listA, "1")
		must(t, os.Symlink("..data/net.conflist", filepath.Join(elsewhere, "net.conflist")),
			os.Symlink(filepath.Join(elsewhere, "net.conflist"), filepath.Join(s.conf, "net.conflist")))
		n := s.network()
		s.expect(n, "a")
		mount(t, elsewhere, listB, "2")
		s.expect(n, "b")
		testutil.WriteFile(t, filepath.Join(elsewhere, "..v2", "net.conflist"), listA)
		s.expect(n, "a")
	})
}

func TestPluginDirIsFollowed(t *testing.T) {
	s := newSandbox(t)
	s.configure("a.conflist", `{"cniVersion":"1.1.0","name":"a"}`)
	n := s.network()
	c := n.Config()
	testutil.Assert(t, c.Name == "", "a list without plugins: %+v", c)
	must(t, os.Mkdir(filepath.Join(s.conf, "a"), 0o755))
	testutil.WriteFile(t, filepath.Join(s.conf, "a", "1.conf"), `{"type":"one"}`)
	s.expect(n, "a")
	testutil.WriteFile(t, filepath.Join(s.conf, "a", "2.conf"), `{"type":"two"}`)
	testutil.Until(t, "second plugin", func() bool { return len(n.Config().Plugins) == 2 })
}

func TestWatcherRestsAndDebounces(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "net.d")
	must(t, os.Mkdir(dir, 0o755))
	var readings atomic.Int32
	w := startWatcher(t.Context(), dir, func(context.Context) { readings.Add(1) })
	got := readings.Load()
	testutil.Assert(t, got == 1, "%d readings at the start", got)
	testutil.WriteFile(t, filepath.Join(parent, "log"), "noise")
	must(t, os.Chmod(dir, 0o700))
	time.Sleep(4 * quiet)
	testutil.Equal(t, readings.Load(), 1, "readings though nothing that matters changed")
	started := time.Now()
	for range 50 {
		testutil.WriteFile(t, filepath.Join(dir, "a.conflist"), listA)
	}
	most := 5 + int32(time.Since(started)/quiet) // a busy machine may pause within the burst
	testutil.Until(t, "reading", func() bool { return readings.Load() > 1 })
	time.Sleep(4 * quiet)
	got = readings.Load()
	testutil.Assert(t, got <= most, "%d readings for one burst, want at most %d", got, most)

	// A directory is read even if its changes never pause.
	before := readings.Load()
	started = time.Now()
	for readings.Load() == before && time.Since(started) < 10*maxDelay {
		testutil.WriteFile(t, filepath.Join(dir, "a.conflist"), listA)
		time.Sleep(quiet / 10)
	}
	testutil.Assert(t, readings.Load() != before, "changes without a pause keep the directory unread")
	w.close()
	w.close()
	before = readings.Load()
	testutil.WriteFile(t, filepath.Join(dir, "b.conflist"), listB)
	time.Sleep(4 * quiet)
	testutil.Assert(t, readings.Load() == before, "read after close")
}

func TestNewRefusesRelativeDirs(t *testing.T) {
	for _, opts := range []Options{{ConfDir: "net.d"}, {BinDirs: []string{"/opt/cni/bin", "bin"}},
		{CacheDir: "cache"}} {
		_, err := New(opts)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "%+v: %v", opts, err)
	}
}

// The kernel limits inotify instances and watches per user, so other programs may have used them up. Then the
// configuration is read with a delay. The directory is watched as soon as the kernel allows it.
func TestWithoutInotify(t *testing.T) {
	if testutil.InUserNamespace(t) {
		return
	}
	for _, lack := range []string{"instances", "watches"} {
		t.Run(lack, func(t *testing.T) {
			s := newSandbox(t)
			s.configure("10-a.conflist", listA)
			testutil.LimitInotify(t, lack, 0)
			n := s.network()
			testutil.Equal(t, n.Config().Name, "a", "at the start the network")
			s.configure("05-b.conflist", listB)
			s.expect(n, "b")
			testutil.LimitInotify(t, lack, 1000)
			time.Sleep(retryDelay + time.Second)
			began := time.Now()
			s.configure("01-c.conf", singleC)
			s.expect(n, "c")
			took := time.Since(began)
			testutil.Assert(t, took <= retryDelay/2, "a change was seen after %v, the directory is not watched", took)
		})
	}
}

// A file system that reports no changes, as some network file systems do, is read on request.
func TestReloadReadsTheDirectory(t *testing.T) {
	reads := make(chan struct{}, 10)
	w := startWatcher(t.Context(), t.TempDir(), func(context.Context) { reads <- struct{}{} })
	defer w.close()
	<-reads
	w.ask()
	w.ask()
	<-reads
}
