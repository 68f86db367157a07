package state

import (
	"context"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/encoding/protojson"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// TestMain keeps the log out of the tests' output.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		logrus.SetOutput(io.Discard)
	}
	os.Exit(m.Run())
}

var errNoSuchCommand = errors.New("no such command")

const testImage = "example.com/test:1"

// node has an engine in memory and a cache.
type node struct {
	testing.TB
	engine   *engine
	features docker.Features
	records  *records
	cache    *Cache
	// stop ends the cache and waits for it, nil while the cache does not run.
	stop func()
}

// onNode runs a test with a node whose cache is not running yet, in a synctest bubble. Time passes only while every
// goroutine waits. synctest.Wait returns when the cache is idle. A goroutine that outlives the test fails it.
func onNode(t *testing.T, opts dockertest.Options, test func(*node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, opts)
		defer n.engine.Close()
		defer n.stopCache()
		test(n)
	})
}

// onNodes runs the test for each case, on a new node.
func onNodes[T any](t *testing.T, opts dockertest.Options, cases map[string]T, test func(*node, T)) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, opts, func(n *node) { test(n, tc) })
		})
	}
}

func newNode(t testing.TB, opts dockertest.Options) *node {
	opts.Images = append(opts.Images, dockertest.Image{Names: []string{testImage}})
	n := &node{
		TB:      t,
		engine:  &engine{Engine: dockertest.New(opts)},
		records: &records{byID: map[string]checkpoint.Record{}},
	}
	var err error
	n.features, err = n.engine.Features(n.Context())
	n.must(err)
	n.newCache()
	return n
}

// newCache makes a new cache, as a restart of the program does.
func (n *node) newCache() {
	n.cache = New(Options{Engine: n.engine, Records: n.records})
}

// follow runs the cache until stopCache.
func (n *node) follow() {
	ctx, cancel := context.WithCancel(n.Context())
	ended := testutil.Go(func() error { return n.cache.Run(ctx) })
	n.stop = func() {
		cancel()
		testutil.FailsWith(n, <-ended, context.Canceled, "Run")
	}
}

func (n *node) stopCache() {
	if n.stop != nil {
		n.stop()
		n.stop = nil
	}
}

// sync runs the cache and waits for its first relist.
func (n *node) sync() {
	n.Helper()
	n.follow()
	testutil.Must(n, n.cache.WaitSynced(n.Context()))
	synctest.Wait()
}

// podConfig is a pod's configuration as a client sends it.
func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Labels:       map[string]string{"app": name},
		Annotations:  map[string]string{"note": "of " + name},
		LogDirectory: "/var/log/pods/" + name,
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}},
	}
}

func (n *node) sandboxSpec(name string) docker.ContainerSpec {
	n.Helper()
	spec, err := translate.Sandbox(
		translate.SandboxInput{Config: podConfig(name), Image: testImage, Features: n.features})
	n.must(err)
	return spec
}

// createPod creates a sandbox container of ours in the engine, without a record.
func (n *node) createPod(name string) string {
	n.Helper()
	id, err := n.engine.CreateContainer(n.Context(), n.sandboxSpec(name))
	n.must(err)
	return id
}

// startPod makes a pod as sandbox.Service does: its sandbox runs, and its record has phase ready.
func (n *node) startPod(name string) string {
	n.Helper()
	id := n.createPod(name)
	n.start(id)
	n.records.save(readyRecord(id, name))
	return id
}

func readyRecord(id, name string) checkpoint.Record {
	config := podConfig(name)
	raw, err := protojson.Marshal(config)
	if err != nil {
		panic(err) // podConfig is valid
	}
	return checkpoint.Record{
		SandboxID: id,
		Name:      name, Namespace: config.Metadata.Namespace, UID: config.Metadata.Uid,
		Phase:     checkpoint.PhaseReady,
		NetnsPath: "/run/netns/" + name,
		Config:    raw,
		Network:   &checkpoint.Network{Config: "net", IPs: []string{"10.88.0.2", "fd00::2"}},
	}
}

// containerSpec is a container of a pod as container.Service creates it.
func (n *node) containerSpec(podID, podName, name string) docker.ContainerSpec {
	n.Helper()
	spec, err := translate.Container(translate.ContainerInput{
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name},
			Image:    &runtimeapi.ImageSpec{Image: testImage},
			LogPath:  name + "/0.log",
		},
		Sandbox:  translate.SandboxRef{ID: podID, Config: podConfig(podName)},
		ImageID:  testImage,
		Features: n.features,
	})
	n.must(err)
	return spec
}

func (n *node) createContainer(podID, podName, name string) string {
	n.Helper()
	id, err := n.engine.CreateContainer(n.Context(), n.containerSpec(podID, podName, name))
	n.must(err)
	return id
}

func (n *node) start(id string) {
	n.Helper()
	n.must(n.engine.StartContainer(n.Context(), id))
}

// startContainer makes a running container in a running pod.
func (n *node) startContainer(name string) (podID, id string) {
	n.Helper()
	podID = n.startPod("pod-of-" + name)
	id = n.createContainer(podID, "pod-of-"+name, name)
	n.start(id)
	return podID, id
}

func (n *node) must(err error) {
	n.Helper()
	testutil.Must(n, err)
}

func (n *node) pod(id string) *Pod {
	n.Helper()
	pod, err := n.cache.Snapshot().Pod(id)
	n.must(err)
	return pod
}

func (n *node) container(id string) *Container {
	n.Helper()
	c, err := n.cache.Snapshot().Container(id)
	n.must(err)
	return c
}

func (n *node) wantContainer(id string, want runtimeapi.ContainerState) {
	n.Helper()
	testutil.Equal(n, n.container(id).Status.State(), want, "the container")
}

func (n *node) wantPod(id string, want runtimeapi.PodSandboxState) {
	n.Helper()
	testutil.Equal(n, n.pod(id).Status.State(), want, "the pod")
}

// refreshing refreshes a container in a goroutine, which sends the result.
func (n *node) refreshing(id string) <-chan error {
	return testutil.Try(func() (*Container, error) { return n.cache.RefreshContainer(n.Context(), id) })
}

// wantUnknown checks that an id is neither a pod nor a container.
func (n *node) wantUnknown(id string) {
	n.Helper()
	snapshot := n.cache.Snapshot()
	_, err := snapshot.Pod(id)
	testutil.Assert(n, errdefs.IsNotFound(err), "the pod is there (%v), want NotFound", err)
	_, err = snapshot.Container(id)
	testutil.Assert(n, errdefs.IsNotFound(err), "the container is there (%v), want NotFound", err)
}

const (
	podReady    = runtimeapi.PodSandboxState_SANDBOX_READY
	podNotReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	created     = runtimeapi.ContainerState_CONTAINER_CREATED
	running     = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited      = runtimeapi.ContainerState_CONTAINER_EXITED
)

// caughtUp returns when the cache has handled all events so far.
func caughtUp() {
	time.Sleep(eventPause)
	synctest.Wait()
}

// settle waits for longer than the pauses between two tries, but less than the time between two relists.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// engine is an engine in memory that can delay answers and lose events.
type engine struct {
	*dockertest.Engine

	mu sync.Mutex
	// inspected is called with each inspect's answer before InspectContainer returns it.
	inspected func(*container.InspectResponse)
	// listed is called with each list before ListContainers returns it.
	listed func([]container.Summary)
	// lose reports whether an event gets lost.
	lose func(docker.Event) bool
	// subscribing is the time that the engine takes to accept a subscription.
	subscribing time.Duration
}

func (e *engine) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	answer, err := e.Engine.InspectContainer(ctx, id)
	e.mu.Lock()
	inspected := e.inspected
	e.mu.Unlock()
	if inspected != nil && err == nil {
		inspected(answer)
	}
	return answer, err
}

func (e *engine) ListContainers(ctx context.Context, labels map[string]string) ([]container.Summary, error) {
	answer, err := e.Engine.ListContainers(ctx, labels)
	e.mu.Lock()
	listed := e.listed
	e.mu.Unlock()
	if listed != nil && err == nil {
		listed(answer)
	}
	return answer, err
}

func (e *engine) Events(ctx context.Context, opts docker.EventsOptions) error {
	e.mu.Lock()
	subscribing := e.subscribing
	e.mu.Unlock()
	time.Sleep(subscribing)
	handle := opts.Handle
	opts.Handle = func(event docker.Event) {
		e.mu.Lock()
		lose := e.lose
		e.mu.Unlock()
		if lose == nil || !lose(event) {
			handle(event)
		}
	}
	return e.Engine.Events(ctx, opts)
}

// onInspect sets inspected, which may be nil.
func (e *engine) onInspect(do func(*container.InspectResponse)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inspected = do
}

func (e *engine) onList(do func([]container.Summary)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listed = do
}

// holdInspect delays the next inspect of a container. arrived is closed when the engine has answered. The caller gets
// the answer after release.
func (e *engine) holdInspect(id string) (arrived <-chan struct{}, release func()) {
	seen, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	e.onInspect(func(answer *container.InspectResponse) {
		if answer.ID == id {
			once.Do(func() {
				close(seen)
				<-held
			})
		}
	})
	return seen, func() { close(held) }
}

// loseEvents sets which events get lost, nil for none.
func (e *engine) loseEvents(lost func(docker.Event) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lose = lost
}

func allEvents(docker.Event) bool { return true }

// records is a checkpoint store in memory.
type records struct {
	mu   sync.Mutex
	byID map[string]checkpoint.Record
	// refused are heads of records that a newer program wrote.
	refused []checkpoint.Record
	err     error
}

func (r *records) Load(ctx context.Context, id string) (checkpoint.Record, error) {
	if err := ctx.Err(); err != nil {
		return checkpoint.Record{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if record, ok := r.byID[id]; ok {
		return record, r.err
	}
	return checkpoint.Record{}, errdefs.ErrNotFound
}

func (r *records) LoadContainer(ctx context.Context, id, containerID string) (checkpoint.Container, error) {
	record, err := r.Load(ctx, id)
	if err != nil {
		return checkpoint.Container{}, err
	}
	if kept, ok := record.Containers[containerID]; ok {
		return kept, nil
	}
	return checkpoint.Container{}, errdefs.ErrNotFound
}

func (r *records) List(ctx context.Context) (checkpoint.Listing, error) {
	if err := ctx.Err(); err != nil {
		return checkpoint.Listing{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return checkpoint.Listing{Records: slices.Collect(maps.Values(r.byID)), Refused: r.refused}, r.err
}

func (r *records) save(record checkpoint.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID[record.SandboxID] = record
}

// fail makes all later reads fail with err, or succeed if err is nil.
func (r *records) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *records) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, id)
}
