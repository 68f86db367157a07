package server

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/sandbox"
	"github.com/criadapter/criadapter/state"
)

// CNI ADD fails for two pods at the same time. Packages cni, sandbox and server each log the failure. All lines about
// one pod have the same request, RPC, pod and sandbox, and the two sandboxes differ. A line that belongs to no request
// names its component.
func TestOneRequestThroughTheLog(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	hook := logged(t)
	client := runtimeapi.NewRuntimeServiceClient(nodeWithBrokenNetwork(t).dial(t))
	var group sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		group.Go(func() {
			_, err := client.RunPodSandbox(t.Context(),
				&runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
					Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
				}})
			testutil.Assert(t, err != nil, "pod %s runs without a network", name)
		})
	}
	group.Wait()

	ids := map[any]bool{}
	for _, name := range []string{"one", "two"} {
		lines := linesOf(hook.AllEntries(), "default/"+name)
		for _, message := range []string{
			"CNI ADD failed, running DEL", "pod sandbox set-up failed, rolling back", "CRI request",
		} {
			testutil.Require(t, lines[message] != nil, "pod %s: no line %q, but %v", name, message, lines)
		}
		whole := lines["CRI request"].Data
		ids[whole["podSandboxID"]] = true
		for message, line := range lines {
			for _, field := range []string{"request", "rpc", "podSandboxID"} {
				testutil.Assert(t, line.Data[field] != nil && line.Data[field] == whole[field],
					"pod %s: %q has %s=%v, the request has %v", name, message, field, line.Data[field], whole[field])
			}
		}
	}
	testutil.Assert(t, len(ids) == 2, "the sandboxes are %v", ids)
	checkOrigins(t, hook.AllEntries(), "cni", "state")
}

// linesOf returns the lines of a pod by their messages.
func linesOf(entries []*logrus.Entry, pod string) map[string]*logrus.Entry {
	lines := map[string]*logrus.Entry{}
	for _, entry := range entries {
		if entry.Data["pod"] == pod {
			lines[entry.Message] = entry
		}
	}
	return lines
}

// checkOrigins checks that each line has either a request or a component, and that each of the given components has a
// line.
func checkOrigins(t *testing.T, entries []*logrus.Entry, components ...string) {
	t.Helper()
	for _, entry := range entries {
		testutil.Assert(t, (entry.Data["request"] == nil) != (entry.Data["component"] == nil),
			"the line %q must have either a request or a component: %v", entry.Message, entry.Data)
	}
	for _, component := range components {
		if !slices.ContainsFunc(entries, func(e *logrus.Entry) bool { return e.Data["component"] == component }) {
			t.Errorf("no line of %s", component)
		}
	}
}

// nodeWithBrokenNetwork is a node with the real services for pods and an engine in memory, which was away at first. The
// plugin of its network refuses ADD.
func nodeWithBrokenNetwork(t *testing.T) *node {
	dir := t.TempDir()
	store, err := checkpoint.Open(filepath.Join(dir, "pods"))
	testutil.Must(t, err)
	pid, _ := testutil.StartProcess(t, unix.CLONE_NEWNET)
	engine := &engineWithProcess{
		Engine: dockertest.New(dockertest.Options{Images: []dockertest.Image{{Names: []string{"pause"}}}}),
		pid:    pid,
	}
	t.Cleanup(engine.Close)
	network := brokenNetwork(t, dir)
	pods := state.New(state.Options{Engine: engine, Records: store})
	n := newNode()
	n.opts.Cache, n.opts.Network = pods, network
	sandboxes := sandbox.New(sandbox.Options{
		Engine: engine, Cache: pods, Store: store, Network: network, Images: pauseImage{},
		Containers: containers{n.services},
		Files:      sandbox.NewFiles(filepath.Join(dir, "files")), NetnsDir: filepath.Join(dir, "netns"),
	})
	n.opts.Sandboxes = sandboxes
	t.Cleanup(sandboxes.Close)
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "netns"), unix.MNT_DETACH) })
	engine.Away()
	followEngine(t, pods)
	engine.Back()
	testutil.Must(t, pods.WaitSynced(t.Context()))
	return n
}

// followEngine keeps a cache up to date until the test ends. It returns when the cache has found that its engine is
// away.
func followEngine(t *testing.T, cache *state.Cache) {
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		_ = cache.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-followed
	})
	for errors.Is(cache.Err(), state.ErrStarting) {
		time.Sleep(time.Millisecond)
	}
}

// brokenNetwork has one plugin, whose ADD fails.
func brokenNetwork(t *testing.T, dir string) *cni.Network {
	files := map[string]string{
		"net.d/10-broken.conflist": `{"cniVersion":"1.0.0","name":"broken","plugins":[{"type":"broken"}]}`,
		"bin/broken": `#!/bin/sh
if [ "$CNI_COMMAND" = ADD ]; then echo '{"cniVersion":"1.0.0","code":100,"msg":"no address is left"}'; exit 1; fi
`}
	for name, content := range files {
		path := filepath.Join(dir, name)
		testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testutil.Must(t, os.WriteFile(path, []byte(content), 0o755))
	}
	network, err := cni.New(cni.Options{
		ConfDir: filepath.Join(dir, "net.d"), BinDirs: []string{filepath.Join(dir, "bin")},
		CacheDir: filepath.Join(dir, "cache"),
	})
	testutil.Must(t, err)
	t.Cleanup(network.Close)
	return network
}

// engineWithProcess is an engine in memory whose containers have a process of this machine.
type engineWithProcess struct {
	*dockertest.Engine
	pid int
}

// InspectContainer implements docker.Engine.
func (e *engineWithProcess) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	inspect, err := e.Engine.InspectContainer(ctx, id)
	if err == nil && inspect.State.Running {
		inspect.State.Pid = e.pid
	}
	return inspect, err
}

// pauseImage is a sandbox.Images that has the image.
type pauseImage struct{}

func (pauseImage) EnsureSandboxImage(context.Context) (string, error) { return "pause", nil }

func (pauseImage) ReloadSandboxImage(context.Context) (string, error) { return "pause", nil }
