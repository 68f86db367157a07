package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/ociexec"
	"github.com/criadapter/criadapter/state"
)

// node is a Service with everything around it, on an engine in memory or a real one.
type node struct {
	*Service
	t      *testing.T
	engine docker.Engine
	cache  *state.Cache
	store  *checkpoint.Store
	logs   *logs.Service
	dir    string
	image  string
	pause  string
	// linkLogs is Options.LinkLogs from the next boot on.
	linkLogs bool
	// commands is Options.Commands from the next boot on.
	commands *ociexec.Runner

	stopCache func()
}

// engineImages finds images as package image does, without its caches.
type engineImages struct {
	docker.Engine
	// refuse is the error of Allow for an image's name, nil to allow it.
	refuse func(name string) error
}

func (i engineImages) Resolve(ctx context.Context, ref string) (string, error) {
	inspect, err := i.InspectImage(ctx, ref)
	if err != nil {
		return "", err
	}
	return inspect.ID, nil
}

func (engineImages) IsArtifact(context.Context, string) (bool, error) { return false, nil }

func (i engineImages) Digested(ctx context.Context, id, _ string) (string, error) {
	inspect, err := i.InspectImage(ctx, id)
	if err != nil || len(inspect.RepoDigests) == 0 {
		return "", err
	}
	return inspect.RepoDigests[0], nil
}

func (i engineImages) Allow(_ context.Context, _, name string) error {
	if i.refuse == nil {
		return nil
	}
	return i.refuse(name)
}

// appDigest is the name by digest of the fake node's image app:1.
var appDigest = "127.0.0.1:5000/app@sha256:" + strings.Repeat("1", 64)

// newFakeNode is a node on an engine in memory, whose directory for containers is a temporary one.
func newFakeNode(t *testing.T, programs ...dockertest.Program) (*node, *dockertest.Engine) {
	t.Helper()
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.CgroupVersion = 2 // newCgroup makes a directory of cgroup v2
	return newNodeOn(t, dockertest.Options{Features: features, Programs: programs},
		dockertest.Image{Names: []string{"app:1"}, Digests: []string{appDigest}})
}

// newNodeOn is a node on an engine in memory that has the images of a container and a sandbox, and more.
func newNodeOn(t *testing.T, opts dockertest.Options, more ...dockertest.Image) (*node, *dockertest.Engine) {
	t.Helper()
	opts.Features.Root = t.TempDir()
	opts.Images = append([]dockertest.Image{{Names: []string{"busybox"}}, {Names: []string{"pause"}}}, more...)
	engine := dockertest.New(opts)
	t.Cleanup(engine.Close)
	return newNode(t, engine, "busybox", "pause"), engine
}

func newNode(t *testing.T, engine docker.Engine, image, pause string) *node {
	t.Helper()
	n := &node{t: t, engine: engine, dir: t.TempDir(), image: image, pause: pause}
	store, err := checkpoint.Open(filepath.Join(n.dir, "checkpoint"))
	testutil.Must(t, err)
	n.store = store
	n.boot()
	t.Cleanup(func() { n.shutDown() })
	return n
}

// boot starts the services as a start of criadapter does, on the same disk and engine.
func (n *node) boot() {
	n.t.Helper()
	n.logs = logs.New(logs.Options{})
	n.cache = state.New(state.Options{Engine: n.engine, Records: n.store})
	n.Service = New(Options{
		Engine: n.engine,
		Cache:  n.cache,
		Store:  n.store,
		Images: engineImages{Engine: n.engine},
		Logs:   n.logs,
		Files:  func(string) translate.HostFiles { return translate.HostFiles{} },

		LinkLogs: n.linkLogs,
		Commands: n.commands,
	})
	n.cache.OnExit(n.FinishExit)
	n.cache.OnOOM(n.SaveOOM)
	n.stopCache = n.background("the cache", n.cache.Run)
	synced, cancelSync := context.WithTimeout(n.t.Context(), longRun)
	defer cancelSync()
	testutil.Must(n.t, n.cache.WaitSynced(synced))
}

// background runs a part of the server that ends with its context, until stop or the end of the test.
func (n *node) background(name string, run func(context.Context) error) (stop func()) {
	return testutil.Background(n.t, func(ctx context.Context) error {
		testutil.FailsWith(n.t, run(ctx), context.Canceled, "%s", name)
		return nil
	})
}

func (n *node) shutDown() {
	n.stopCache()
	n.logs.Close()
}

// restart restarts criadapter, and runs meanwhile while it is down.
func (n *node) restart(meanwhile func()) {
	n.t.Helper()
	n.reboot(meanwhile)
	testutil.Must(n.t, n.Recover(n.t.Context()))
}

// reboot is restart without Recover.
func (n *node) reboot(meanwhile func()) {
	n.t.Helper()
	n.shutDown()
	meanwhile()
	n.boot()
}

// withoutStore calls do while no record can be written.
func (n *node) withoutStore(do func()) {
	n.t.Helper()
	dir := filepath.Join(n.dir, "checkpoint")
	testutil.Must(n.t, os.Rename(dir, dir+".away"))
	do()
	testutil.Must(n.t, os.Rename(dir+".away", dir))
}

var podCount atomic.Uint32

// pod makes a ready pod without a network.
func (n *node) pod() string {
	n.t.Helper()
	return n.podIn("")
}

// podIn makes a ready pod without a network in a cgroup, the engine's default one if that is empty.
func (n *node) podIn(cgroup string) string {
	n.t.Helper()
	ctx := n.t.Context()
	features, err := n.engine.Features(ctx)
	testutil.Must(n.t, err)
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name:      fmt.Sprintf("pod%d", podCount.Add(1)),
			Namespace: "container-test",
			Uid:       fmt.Sprintf("%d", time.Now().UnixNano()),
		},
		LogDirectory: filepath.Join(n.dir, "pods"),
	}
	if cgroup != "" {
		config.Linux = &runtimeapi.LinuxPodSandboxConfig{CgroupParent: cgroup}
	}
	spec, err := translate.Sandbox(translate.SandboxInput{Config: config, Image: n.pause, Features: features})
	testutil.Must(n.t, err)
	id, err := n.engine.CreateContainer(ctx, spec)
	testutil.Must(n.t, err)
	n.t.Cleanup(func() { n.cleanUp(id) })
	testutil.Must(n.t, n.engine.StartContainer(ctx, id))
	inspect, err := n.engine.InspectContainer(ctx, id)
	testutil.Must(n.t, err)
	raw, err := protojson.Marshal(config)
	testutil.Must(n.t, err)
	record := checkpoint.Record{SandboxID: id, Phase: checkpoint.PhaseReady, Config: raw}
	testutil.Must(n.t, n.store.Save(ctx, record))
	n.cache.PutPod(state.NewPod(n.t.Context(), inspect, record))
	return id
}

// cleanUp removes a pod with its containers from the engine.
func (n *node) cleanUp(sandboxID string) {
	ctx, cancel := context.WithTimeout(context.Background(), longRun)
	defer cancel()
	for _, c := range n.cache.Snapshot().ContainersOf(sandboxID) {
		if err := n.engine.RemoveContainer(ctx, c.ID); err != nil && !errdefs.IsNotFound(err) &&
			!errdefs.IsUnavailable(err) {
			n.t.Error(err)
		}
	}
	if err := n.engine.RemoveContainer(ctx, sandboxID); err != nil && !errdefs.IsNotFound(err) &&
		!errdefs.IsUnavailable(err) {
		n.t.Error(err)
	}
}

// config is a container's configuration that runs a command, without a log.
func (n *node) config(command ...string) *runtimeapi.ContainerConfig {
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
		Image:    &runtimeapi.ImageSpec{Image: n.image},
		Command:  command,
		Labels:   map[string]string{"app": "web"},
	}
}

func (n *node) create(sandboxID string, config *runtimeapi.ContainerConfig) string {
	n.t.Helper()
	id, err := n.Create(n.t.Context(), sandboxID, config, nil)
	testutil.Require(n.t, err == nil, "Create: %v", err)
	return id
}

func (n *node) start(id string) {
	n.t.Helper()
	testutil.Must(n.t, n.Start(n.t.Context(), id), "Start")
}

// running makes a running container.
func (n *node) running(command ...string) string {
	n.t.Helper()
	return n.started(n.pod(), n.config(command...))
}

// started makes a running container in the pod.
func (n *node) started(sandboxID string, config *runtimeapi.ContainerConfig) string {
	n.t.Helper()
	id := n.create(sandboxID, config)
	n.start(id)
	return id
}

// createdInPod makes a created container in a pod of its own.
func (n *node) createdInPod() (pod, id string) {
	n.t.Helper()
	pod = n.pod()
	return pod, n.create(pod, n.config("sleep"))
}

// runningInPod makes a running container in a pod of its own.
func (n *node) runningInPod() (pod, id string) {
	n.t.Helper()
	pod = n.pod()
	return pod, n.started(pod, n.config("sleep"))
}

// exit ends the container's process, and waits until the cache shows it.
func (n *node) exit(engine *dockertest.Engine, id string, code int) {
	n.t.Helper()
	testutil.Must(n.t, engine.Exit(id, code))
	n.waitState(id, exited)
}

// engineAway ends the connection to the engine, and waits until the cache notices.
func (n *node) engineAway(engine *dockertest.Engine) {
	n.t.Helper()
	engine.Away()
	testutil.Until(n.t, "the cache notices that the engine is away", func() bool { return n.cache.Err() != nil })
}

// knownPod returns the pod as the cache shows it now.
func (n *node) knownPod(id string) *state.Pod {
	n.t.Helper()
	pod, err := n.cache.Snapshot().Pod(id)
	testutil.Must(n.t, err)
	return pod
}

// look returns the container as the cache shows it now.
func (n *node) look(id string) *state.Container {
	n.t.Helper()
	c, err := n.cache.Snapshot().Container(id)
	testutil.Must(n.t, err)
	return c
}

func (n *node) wantState(id string, want runtimeapi.ContainerState) {
	n.t.Helper()
	testutil.Equal(n.t, n.look(id).Status.State(), want, "the container")
}

// waitState waits until the cache shows the state.
func (n *node) waitState(id string, want runtimeapi.ContainerState) {
	n.t.Helper()
	testutil.Eventually(n.t, func() error {
		if got := n.look(id).Status.State(); got != want {
			return fmt.Errorf("the container is %v, want %v", got, want)
		}
		return nil
	})
}

// gone checks that nothing is left of a container.
func (n *node) gone(sandboxID, id string) {
	n.t.Helper()
	_, err := n.cache.Snapshot().Container(id)
	testutil.Assert(n.t, errdefs.IsNotFound(err), "the cache still has container %s: %v", id, err)
	if _, err := n.engine.InspectContainer(n.t.Context(), id); !errdefs.IsNotFound(err) {
		n.t.Errorf("the engine still has container %s: %v", id, err)
	}
	n.noRecords(sandboxID)
}

// noRecords checks that the checkpoint holds no container of a pod.
func (n *node) noRecords(sandboxID string) {
	n.t.Helper()
	record, err := n.store.Load(context.Background(), sandboxID)
	testutil.Must(n.t, err)
	testutil.Assert(n.t, len(record.Containers) == 0, "the checkpoint still holds %v", record.Containers)
}

// wantNothing checks that a failed Create has left nothing in the engine.
func (n *node) wantNothing(sandboxID string) {
	n.t.Helper()
	list, err := n.engine.ListContainers(n.t.Context(), map[string]string{translate.LabelSandboxID: sandboxID})
	testutil.Must(n.t, err)
	testutil.Assert(n.t, len(list) == 0, "the engine has %d containers of the pod: %v", len(list), list)
	n.noRecords(sandboxID)
	testutil.Eventually(n.t, func() error {
		if c := n.cache.Snapshot().ContainersOf(sandboxID); len(c) != 0 {
			return fmt.Errorf("the cache shows %s, which does not exist", c[0].ID)
		}
		return nil
	})
}

// engineDir makes the directory that a real engine makes for a container.
func (n *node) engineDir(id string) string {
	n.t.Helper()
	features, err := n.engine.Features(n.t.Context())
	testutil.Must(n.t, err)
	dir := filepath.Join(features.Root, "containers", id)
	testutil.Must(n.t, os.MkdirAll(dir, 0o700))
	return dir
}
