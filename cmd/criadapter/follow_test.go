package main

import (
	"context"
	"path/filepath"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/container"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/sandbox"
	"github.com/criadapter/criadapter/state"
)

// hangingNetwork is a network whose cache is on a disk that hangs until done is closed. Recover reads this cache first.
type hangingNetwork struct {
	sandbox.Network
	done <-chan struct{}
}

func (n hangingNetwork) Attached() (map[string]string, error) {
	<-n.done
	return nil, nil
}

// A sandbox that was restarted while no server ran is NOTREADY at the first list, although its record says READY.
func TestClientsSeeRepairedPods(t *testing.T) {
	dir := t.TempDir()
	engine := dockertest.New(dockertest.Options{Images: []dockertest.Image{{Names: []string{"pause"}}}})
	t.Cleanup(engine.Close)
	store, err := checkpoint.Open(dir)
	testutil.Must(t, err)
	id := restartedPod(t, engine, store, filepath.Join(dir, "netns", "web"))
	images, err := image.New(image.Options{Engine: engine})
	testutil.Must(t, err)
	t.Cleanup(images.Close)
	cache := state.New(state.Options{Engine: engine, Records: store, RootDirectory: dir})
	s := &services{
		cache: cache, images: images, recovered: make(chan struct{}), logsRecovered: make(chan struct{}),
		containers: container.New(container.Options{Engine: engine, Cache: cache, Store: store}),
		sandboxes: sandbox.New(sandbox.Options{Engine: engine, Cache: cache, Store: store, RootDirectory: dir,
			Files: sandbox.NewFiles(filepath.Join(dir, "files")), NetnsDir: filepath.Join(dir, "netns"),
			Network: hangingNetwork{done: t.Context().Done()}}),
	}
	testutil.Background(t, func(ctx context.Context) error { s.follow(ctx); return nil })
	<-s.logsRecovered
	pod, err := cache.Snapshot().Pod(id)
	testutil.Must(t, err)
	testutil.Equal(t, pod.Status.State(), runtimeapi.PodSandboxState_SANDBOX_NOTREADY, "the pod is")
}

// restartedPod makes a ready pod whose sandbox container was started twice.
func restartedPod(t *testing.T, engine *dockertest.Engine, store *checkpoint.Store, netns string) (id string) {
	t.Helper()
	ctx := t.Context()
	features, err := engine.Features(ctx)
	testutil.Must(t, err)
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "uid"}}
	spec, err := translate.Sandbox(translate.SandboxInput{Config: config, Image: "pause", Features: features})
	testutil.Must(t, err)
	id, err = engine.CreateContainer(ctx, spec)
	testutil.Must(t, err)
	testutil.Must(t, engine.StartContainer(ctx, id))
	testutil.Must(t, engine.StopContainer(ctx, id, 0))
	testutil.Must(t, engine.StartContainer(ctx, id))
	testutil.Must(t, store.Save(ctx, checkpoint.Record{SandboxID: id, Name: "web", UID: "uid", NetnsPath: netns,
		Phase: checkpoint.PhaseReady}))
	return id
}
