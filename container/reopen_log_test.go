package container

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/logs"
)

func TestReopenLog(t *testing.T) {
	n, _ := newFakeNode(t)
	id, logPath := n.startLogged()
	n.writeLog(id, numbered(1, 10)...)
	testutil.Eventually(n.t, func() error { return n.hasLines(logPath, 10) })
	n.rename(logPath, logPath+".old")
	testutil.Must(t, n.ReopenLog(t.Context(), id[:12]))
	n.writeLog(id, numbered(11, 20)...)
	testutil.Eventually(n.t, func() error { return n.hasLines(logPath, 10) })
	n.wantLog(logPath+".old", numbered(1, 10))
	n.wantLog(logPath, numbered(11, 20))
}

func TestReopenLogInOtherStates(t *testing.T) {
	n, engine := newFakeNode(t)
	pod := n.pod()
	id, logPath := n.logged(pod, "sleep")
	refused := func(what string, is func(error) bool, id string) {
		t.Helper()
		err := n.ReopenLog(t.Context(), id)
		testutil.Assert(t, is(err), "%s: %v", what, err)
		_, err = os.Lstat(logPath)
		testutil.Assert(t, err != nil, "%s: an error, and a new log", what)
	}
	refused("created", errdefs.IsFailedPrecondition, id)
	refused("unknown", errdefs.IsNotFound, "nosuch")
	n.start(id)
	n.exit(engine, id, 0)
	n.rename(logPath, logPath+".old")
	refused("exited", errdefs.IsFailedPrecondition, id)
	silent := n.config("sleep")
	silent.Metadata.Name = "silent"
	other := n.started(pod, silent)
	refused("without a log", errdefs.IsFailedPrecondition, other)
}

// The kubelet may call ReopenContainerLog right after a start of criadapter.
func TestReopenLogBeforeRecover(t *testing.T) {
	n, _ := newFakeNode(t)
	id, logPath := n.startLogged()
	n.writeLog(id, numbered(1, 10)...)
	testutil.Eventually(n.t, func() error { return n.hasLines(logPath, 10) })
	n.reboot(func() {})
	n.writeLog(id, numbered(11, 12)...)
	n.rename(logPath, logPath+".old")
	testutil.Must(t, n.ReopenLog(t.Context(), id))
	testutil.Must(t, n.Recover(t.Context()))
	n.writeLog(id, numbered(13, 20)...)
	var got []string
	testutil.Eventually(n.t, func() error {
		got = append(contents(t, logPath+".old"), contents(t, logPath)...)
		if len(got) < 20 {
			return fmt.Errorf("%d lines", len(got))
		}
		return nil
	})
	testutil.Assert(t, slices.Equal(got, numbered(1, 20)), "the two logs hold %q", got)
}

func TestRecoverOfManyContainers(t *testing.T) {
	const count = 100
	n, _ := newFakeNode(t)
	pod := n.pod()
	ids, paths := make([]string, count), make([]string, count)
	for i := range ids {
		config := n.config("sleep")
		config.Metadata.Name = fmt.Sprintf("c%d", i)
		ids[i], paths[i] = n.loggedAt(fmt.Sprintf("c%d/0.log", i), pod, config)
		n.start(ids[i])
		n.writeLog(ids[i], numbered(1, 20)...)
	}
	began := time.Now()
	n.restart(func() {
		for i, id := range ids {
			n.awaitNoWriter(paths[i])
			n.writeLog(id, numbered(21, 40)...)
		}
		began = time.Now()
	})
	took := time.Since(began)
	for _, id := range ids {
		n.writeLog(id, numbered(41, 60)...)
	}
	for _, logPath := range paths {
		testutil.Eventually(n.t, func() error { return n.hasLines(logPath, 60) })
		n.wantLog(logPath, numbered(1, 60))
	}
	testutil.Assert(t, took <= 10*time.Second, "resuming %d logs took %v", count, took)
}

// awaitNoWriter waits until no writer holds a log. A program that ends leaves no writer behind. But here the server
// before a restart ends within the test's process, where a slow disk can keep a writer alive.
func (n *node) awaitNoWriter(logPath string) {
	n.t.Helper()
	file, err := os.Open(logPath)
	testutil.Must(n.t, err)
	defer file.Close()
	testutil.Eventually(n.t, func() error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
}

// A container that another shim created with the driver json-file gets its log at the kubelet's path when criadapter
// starts it.
func TestStartOfAnotherShimsContainer(t *testing.T) {
	for _, link := range []bool{false, true} {
		t.Run(fmt.Sprintf("link=%t", link), func(t *testing.T) {
			n, _ := newFakeNode(t)
			n.reboot(func() { n.linkLogs = link })
			id, logPath := n.foreign(n.pod())
			n.start(id)
			n.writeJSON(id, "hello")
			testutil.Eventually(n.t, func() error {
				text, err := os.ReadFile(logPath)
				if err == nil && len(text) == 0 {
					err = fmt.Errorf("%s is empty", logPath)
				}
				return err
			})
			if info, err := os.Lstat(logPath); err != nil || (info.Mode()&os.ModeSymlink != 0) != link {
				t.Errorf("the log is a %v, %v", info.Mode(), err)
			}
			if !link {
				n.wantLog(logPath, []string{"hello"})
			}
		})
	}
}

func TestLinkedLogs(t *testing.T) {
	n, _ := newFakeNode(t)
	n.reboot(func() { n.linkLogs = true })
	id, logPath := n.logged(n.pod(), "sleep")
	inspect, err := n.engine.InspectContainer(t.Context(), id)
	testutil.Require(t, err == nil && inspect.HostConfig.LogConfig.Type == logs.DriverJSONFile,
		"the container's log is %+v, %v", inspect.HostConfig.LogConfig, err)
	n.start(id)
	n.writeJSON(id, "first")
	n.rename(logPath, logPath+".old")
	n.linkLogs = false // an existing log keeps its mode
	n.restart(func() {})
	_, err = os.Lstat(logPath)
	testutil.Assert(t, err != nil, "a new log that the kubelet has not asked for")
	testutil.Must(t, n.ReopenLog(t.Context(), id))
	n.writeJSON(id, "second")
	testutil.Holds(t, logPath+".old", jsonLine("first"))
	testutil.Holds(t, logPath, jsonLine("second"))
}

func jsonLine(text string) string {
	return fmt.Sprintf(`{"log":"%s\n","stream":"stdout","time":"2024-05-06T07:08:09.123Z"}`+"\n", text)
}

// writeJSON appends a line to a container's log in the format of the driver json-file. As the engine does, it keeps the
// file open.
func (n *node) writeJSON(id, text string) {
	n.t.Helper()
	file, err := os.OpenFile(filepath.Join(n.engineDir(id), id+"-json.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	testutil.Must(n.t, err)
	n.t.Cleanup(func() { _ = file.Close() })
	if _, err := file.WriteString(jsonLine(text)); err != nil {
		n.t.Fatal(err)
	}
}

// foreign creates a container like another shim.
func (n *node) foreign(sandboxID string) (id, logPath string) {
	n.t.Helper()
	config := n.config("sleep")
	config.LogPath = "c/0.log"
	features, err := n.engine.Features(n.t.Context())
	testutil.Must(n.t, err)
	spec, err := translate.Container(translate.ContainerInput{
		Config: config, ImageID: n.image, Features: features,
		Sandbox: translate.SandboxRef{ID: sandboxID, Config: n.knownPod(sandboxID).Meta.Config},
	})
	testutil.Must(n.t, err)
	spec.Host.LogConfig = container.LogConfig{Type: logs.DriverJSONFile}
	id, err = n.engine.CreateContainer(n.t.Context(),
		docker.ContainerSpec{Name: spec.Name, Config: spec.Config, Host: spec.Host})
	testutil.Must(n.t, err)
	n.engineDir(id)
	c, err := n.cache.RefreshContainer(n.t.Context(), id)
	testutil.Must(n.t, err)
	testutil.Must(n.t, os.MkdirAll(filepath.Dir(c.Meta.LogPath), 0o755))
	return id, c.Meta.LogPath
}

func (n *node) rename(from, to string) {
	n.t.Helper()
	testutil.Must(n.t, os.Rename(from, to))
}

func (n *node) hasLines(path string, want int) error {
	if got := len(contents(n.t, path)); got < want {
		return fmt.Errorf("%s has %d lines, want %d", path, got, want)
	}
	return nil
}

// criadapter is killed after it copied the engine's file and before it truncated the file. The kubelet then renames the
// log back. No line appears twice, with linked logs or without.
func TestKillInAReopeningOfALinkedLog(t *testing.T) {
	for _, link := range []bool{true, false} {
		for _, restarted := range []bool{true, false} {
			t.Run(fmt.Sprintf("link=%t restarted=%t", link, restarted), func(t *testing.T) {
				n, _ := newFakeNode(t)
				n.reboot(func() { n.linkLogs = true })
				id, logPath := n.startLogged()
				n.writeJSON(id, "first")
				text, err := os.ReadFile(logPath)
				testutil.Must(t, err)
				n.linkLogs = link
				cutShort := func() {
					testutil.Must(t, os.WriteFile(logPath+"~", text, 0o640))
					n.rename(logPath+"~", logPath) // the copy replaces the link
					n.writeJSON(id, "second")
				}
				if restarted {
					n.restart(cutShort)
					testutil.Holds(t, logPath, jsonLine("first")+jsonLine("second"), "after the start")
				} else {
					cutShort()
				}
				n.rename(logPath, logPath+".old")
				testutil.Must(t, n.ReopenLog(t.Context(), id))
				n.writeJSON(id, "third")
				testutil.Holds(t, logPath+".old", jsonLine("first")+jsonLine("second"))
				testutil.Holds(t, logPath, jsonLine("third"))
			})
		}
	}
}
