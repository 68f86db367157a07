package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/config"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "directory", "cri.sock")
	first, err := listen(path)
	testutil.Must(t, err)
	info, err := os.Stat(path)
	testutil.Assert(t, err == nil && info.Mode().Perm() == 0o600, "the socket is %v, %v", info, err)
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory made for the socket is %v, %v", info, err)
	}
	if _, err := listen(path); err == nil || !strings.Contains(err.Error(), "another server answers") {
		t.Errorf("a second server: %v", err)
	}
	first[0].(*net.UnixListener).SetUnlinkOnClose(false)
	testutil.Must(t, first[0].Close())
	again, err := listen(path)
	testutil.Require(t, err == nil, "over a stale socket: %v", err)
	testutil.Check(t, again[0].Close())
	file := filepath.Join(dir, "file")
	testutil.Must(t, os.WriteFile(file, []byte("precious"), 0o600))
	_, err = listen(file)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "not a socket"), "over a file: %v", err)
}

// cri-dockerd's socket is in /run, a directory that all users may enter.
func TestSocketInADirectoryOfOthers(t *testing.T) {
	dir := t.TempDir()
	testutil.Must(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "cri-dockerd.sock")
	listeners, err := listen(path)
	testutil.Must(t, err)
	defer listeners[0].Close()
	for name, want := range map[string]os.FileMode{path: 0o600, dir: 0o755} {
		info, err := os.Stat(name)
		testutil.Assert(t, err == nil && info.Mode().Perm() == want, "%s is %v, %v, want %v", name, info, err, want)
	}
}

// TestListenWithoutSystemd listens with a unit's endpoint in a process that systemd has not started.
func TestListenWithoutSystemd(t *testing.T) {
	_, err := listen("")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "systemd passed no socket on"), "got %v", err)
}

// TestListenBesideSystemd: a unit may name another path than its socket unit has, as in a drop-in.
func TestListenBesideSystemd(t *testing.T) {
	dir := t.TempDir()
	passed, err := net.Listen("unix", filepath.Join(dir, "systemd.sock"))
	testutil.Must(t, err)
	defer passed.Close()
	for path, want := range map[string]int{
		"": 1, filepath.Join(dir, "systemd.sock"): 1, dir + "//systemd.sock": 1, filepath.Join(dir, "named.sock"): 2,
	} {
		listeners, err := listenBeside([]net.Listener{passed}, path)
		testutil.Require(t, err == nil && len(listeners) == want && listeners[0] == passed, "%q: got %v, %v", path,
			listeners, err)
		if want == 2 {
			testutil.Equal(t, listeners[1].Addr().String(), path, "the second socket")
			testutil.Must(t, listeners[1].Close())
		}
	}
}

func TestOneServerPerRoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	lock, err := lockRoot(dir, "stop it")
	testutil.Must(t, err)
	_, err = lockRoot(dir, "stop it")
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "another criadapter uses"), "a second lock: %v", err)
	time.AfterFunc(lockPatience/4, func() { _ = lock.Close() }) // as if a plugin still held the lock
	again, err := lockRoot(dir, "stop it")
	testutil.Require(t, err == nil, "after the first one has ended: %v", err)
	testutil.Check(t, again.Close())
}

// NRI's library replaces what is at the path of its socket. The socket of another runtime, and a file, must stay.
func TestNRISocketOfAnotherRuntime(t *testing.T) {
	dir := t.TempDir()
	runPod := func(socket string) error {
		cfg := config.Default()
		cfg.NRI, cfg.NRISocket, cfg.NRIPluginDir = config.NRIEnabled, socket, filepath.Join(dir, "plugins")
		plugins, err := (&services{cache: state.New(state.Options{})}).newPlugins(cfg)
		testutil.Must(t, err)
		defer testutil.Background(t, func(ctx context.Context) error {
			plugins.Run(ctx, nil)
			return nil
		})()
		return plugins.RunPod(t.Context(), &state.Pod{})
	}
	taken := filepath.Join(dir, "taken.sock")
	other, err := net.Listen("unix", taken)
	testutil.Must(t, err)
	defer other.Close()
	err = runPod(taken)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "choose another --nri-socket"),
		"over a socket: %v", err)
	file := filepath.Join(dir, "file")
	testutil.WriteFile(t, file, "precious")
	err = runPod(file)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "not a socket"), "over a file: %v", err)
	testutil.Holds(t, file, "precious")
	testutil.Check(t, runPod(filepath.Join(dir, "free.sock")))
}
