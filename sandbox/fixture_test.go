package sandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/netns"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

// TestMain discards the log without -v, because tests cause failures on purpose.
func TestMain(m *testing.M) {
	flag.Parse()
	if !testing.Verbose() {
		logrus.SetOutput(io.Discard)
	}
	os.Exit(m.Run())
}

const (
	pauseImage = "example.com/pause:1"
	appImage   = "example.com/app:1"
)

var errTest = errors.New("made by the test")

// node is a Service with all its dependencies. The checkpoint store and the pins are real. The engine is in memory, but
// its sandboxes have real network namespaces. The network, images and containers are in memory.
type node struct {
	testing.TB
	engine     *engine
	cache      *state.Cache
	store      *checkpoint.Store
	network    *network
	images     *images
	containers *containers
	files      *Files
	*Service

	dir       string
	mode      networkMode
	stopCache func()
}

// onNode runs a test on a node, in a synctest bubble of its own. Time passes only while all goroutines wait. Goroutines
// that are left at the end fail the test.
func onNode(t *testing.T, mode networkMode, test func(*node)) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to make network namespaces and mounts")
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, mode)
		defer n.engine.end()
		defer n.end()
		test(n)
	})
}

// onNodes runs the test for each case, on a new node of the mode.
func onNodes[T any](t *testing.T, mode networkMode, cases map[string]T, test func(*node, T)) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, mode, func(n *node) { test(n, tc) })
		})
	}
}

// onEachKind is onNode for each holder of a pod's namespaces.
func onEachKind(t *testing.T, test func(*node)) {
	t.Helper()
	for kind, mode := range map[string]networkMode{"container": withCNI, "kernel": withKernel} {
		t.Run(kind, func(t *testing.T) { onNode(t, mode, test) })
	}
}

type networkMode int

const (
	withCNI networkMode = iota
	withBridge
	// withKernel is withCNI, but pods that need no sandbox container have none.
	withKernel
)

func newNode(t *testing.T, mode networkMode) *node {
	n := &node{TB: t, dir: t.TempDir()}
	n.engine = &engine{
		Engine: dockertest.New(dockertest.Options{Images: []dockertest.Image{
			{Names: []string{pauseImage, "spare"}}, {Names: []string{appImage}},
		}}),
		bridge:    mode == withBridge,
		runtime:   mode == withKernel,
		address:   netip.MustParseAddr("172.17.0.9"),
		processes: map[string]*process{},
	}
	n.network = &network{joined: map[string]cni.Pod{}}
	n.images = &images{engine: n.engine}
	n.containers = &containers{node: n}
	// Mounts that outlive the test would keep the directory from being removed.
	t.Cleanup(func() {
		for _, dir := range []string{n.netnsDir(), n.podsDir(), n.usersDir(), n.storeDir()} {
			for unix.Unmount(dir, unix.MNT_DETACH) == nil {
			}
		}
	})
	n.must(os.Mkdir(n.storeDir(), 0o700))
	n.must(unix.Mount("tmpfs", n.storeDir(), "tmpfs", 0, "size=256k"))
	n.start(mode)
	return n
}

func (n *node) netnsDir() string           { return filepath.Join(n.dir, "netns") }
func (n *node) netnsPath(id string) string { return netns.PodPin(n.netnsDir(), id) }

func (n *node) podsDir() string  { return filepath.Join(n.dir, "kernel") }
func (n *node) usersDir() string { return n.users.dir() }
func (n *node) storeDir() string { return filepath.Join(n.dir, "pods") }

// start makes the cache and the service, like a start of criadapter.
func (n *node) start(mode networkMode) {
	n.Helper()
	var err error
	n.store, err = checkpoint.Open(n.storeDir())
	n.must(err)
	n.files = NewFiles(filepath.Join(n.dir, "files"))
	n.cache = state.New(state.Options{Engine: n.engine, Records: n.store, RootDirectory: n.dir, Alive: Alive,
		Unrecorded: func() []checkpoint.Record { return ownedPods(n.podsDir(), n.dir) }})
	opts := Options{
		Engine: n.engine, Cache: n.cache, Store: n.store, Images: n.images, Containers: n.containers,
		Files: n.files, NetnsDir: n.netnsDir(), Network: n.network, EngineBridge: mode == withBridge,
		RootDirectory: n.dir, podsDir: n.podsDir(), WithoutContainers: mode == withKernel,
	}
	n.mode = mode
	n.Service = New(opts)
	n.stopCache = testutil.Background(n, func(ctx context.Context) error {
		_ = n.cache.Run(ctx)
		return nil
	})
	n.must(n.cache.WaitSynced(n.Context()))
	synctest.Wait()
}

// end stops the service and then the cache.
func (n *node) end() {
	n.Close()
	n.stopCache()
}

// restart stops the service and the cache and makes new ones. The disk, the engine and the network stay.
func (n *node) restart() {
	n.Helper()
	n.end()
	n.start(n.mode)
}

// Recover repairs and recovers the pods, like a start of criadapter.
func (n *node) Recover(ctx context.Context) error {
	return errors.Join(n.Repair(ctx), n.Service.Recover(ctx))
}

func (n *node) must(err error) {
	n.Helper()
	testutil.Must(n, err)
}

func podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name},
		Hostname:     name,
		Annotations:  map[string]string{"note": "of " + name},
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}, Searches: []string{"default.svc"}},
		PortMappings: []*runtimeapi.PortMapping{{ContainerPort: 80, HostPort: 8080}},
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER}, // as the kubelet
		}},
	}
}

func onHostNetwork(config *runtimeapi.PodSandboxConfig) *runtimeapi.PodSandboxConfig {
	config = proto.CloneOf(config)
	config.Hostname, config.PortMappings = "", nil
	config.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	return config
}

func sandboxName(name string) string { return translate.SandboxName(podConfig(name).Metadata) }

// run makes a pod that must be ready.
func (n *node) run(name string) string {
	n.Helper()
	return n.runConfig(podConfig(name))
}

// runConfig is run for another configuration than podConfig's.
func (n *node) runConfig(config *runtimeapi.PodSandboxConfig) string {
	n.Helper()
	id, err := n.Run(n.Context(), config, "")
	n.must(err)
	n.wantState(id, ready)
	return id
}

// addContainer makes a running container in a pod.
func (n *node) addContainer(podID, podName, name string) string {
	n.Helper()
	features, err := n.engine.Features(n.Context())
	n.must(err)
	spec, err := translate.Container(translate.ContainerInput{
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: appImage},
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			}},
		},
		Sandbox: translate.SandboxRef{ID: podID, Config: podConfig(podName), Namespaces: n.namespaces(podID)},
		ImageID: appImage, Features: features,
	})
	n.must(err)
	spec.Note = nil // the engine in memory has no criadapter-oci
	id, err := n.engine.CreateContainer(n.Context(), spec)
	n.must(err)
	n.must(n.engine.StartContainer(n.Context(), id))
	_, err = n.cache.RefreshContainer(n.Context(), id)
	n.must(err)
	return id
}

// namespaces returns the namespaces that a container of the pod joins, nil if the pod has a sandbox container.
func (n *node) namespaces(podID string) *translate.PodNamespaces {
	n.Helper()
	status := n.pod(podID).Status
	if status.Namespaces == nil {
		return nil
	}
	return &translate.PodNamespaces{Network: status.NetnsPath, IPC: status.Namespaces.IPC, UTS: status.Namespaces.UTS}
}

const (
	ready    = runtimeapi.PodSandboxState_SANDBOX_READY
	notReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

func (n *node) pod(id string) *state.Pod {
	n.Helper()
	pod, err := n.cache.Snapshot().Pod(id)
	n.must(err)
	return pod
}

func (n *node) wantState(id string, want runtimeapi.PodSandboxState) {
	n.Helper()
	testutil.Equal(n, n.pod(id).Status.State(), want, "pod %s", id[:8])
}

// wantRunning checks whether a container runs, or whether the namespaces of a pod without a sandbox container exist.
func (n *node) wantRunning(id string, want bool) {
	n.Helper()
	if record, err := n.store.Load(n.Context(), id); err == nil && record.Namespaces != nil {
		if _, err := os.Stat(record.Namespaces.Dir); (err == nil) != want {
			n.Errorf("the namespaces of pod %s exist: want %v (%v)", id[:8], want, err)
		}
		return
	}
	inspect, err := n.engine.InspectContainer(n.Context(), id)
	testutil.Assert(n, err == nil && inspect.State.Running == want,
		"container %s runs: want %v (%v)", id[:8], want, err)
}

func (n *node) phase(id string) checkpoint.Phase {
	n.Helper()
	record, err := n.store.Load(n.Context(), id)
	n.must(err)
	return record.Phase
}

// removeLast removes the only pod, of which nothing may be left.
func (n *node) removeLast(id string) {
	n.Helper()
	n.must(n.Remove(n.Context(), id))
	n.wantNothing()
}

// stopAndRemoveLast is removeLast after a Stop, which gives the pod's address back.
func (n *node) stopAndRemoveLast(id string) {
	n.Helper()
	n.must(n.Stop(n.Context(), id))
	n.wantUnjoined()
	n.removeLast(id)
}

// wantNothing checks that the engine, the store, the directories, the network and the cache hold no pod.
func (n *node) wantNothing() {
	n.Helper()
	time.Sleep(time.Second) // background work ends meanwhile
	synctest.Wait()
	list, err := n.engine.ListContainers(n.Context(), nil)
	n.must(err)
	for _, c := range list {
		n.Errorf("the engine still has container %s", c.Names)
	}
	if listing, err := n.store.List(n.Context()); err != nil || len(listing.Records) > 0 {
		n.Errorf("the store still has %v, %v", listing.Records, err)
	}
	for _, dir := range []string{n.files.dir, n.netnsDir(), n.podsDir(), n.usersDir()} {
		entries, err := os.ReadDir(dir)
		testutil.Assert(n, len(entries) == 0 && (err == nil || os.IsNotExist(err)),
			"%s still has %v (%v)", dir, entries, err)
	}
	n.wantUnjoined()
	for _, pod := range n.cache.Snapshot().Pods() {
		n.Errorf("the cache still has %s (%v)", pod.Meta.Name, pod.Status)
	}
	testutil.Equal(n, len(n.inflight.byName), 0, "set-ups are remembered")
}

func (n *node) wantUnjoined() {
	n.Helper()
	n.network.mu.Lock()
	defer n.network.mu.Unlock()
	for _, pod := range n.network.joined {
		n.Errorf("pod %s still has an address", pod.Name)
	}
}

// lockStore makes the checkpoints' disk read-only until the returned function is called.
func (n *node) lockStore() (unlock func()) {
	n.Helper()
	n.must(unix.Mount("", n.storeDir(), "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return func() {
		n.Helper()
		n.must(unix.Mount("", n.storeDir(), "", unix.MS_REMOUNT, ""))
	}
}

// fillStore fills the checkpoints' disk until the returned function is called:
// no file can be written, but files can be removed.
func (n *node) fillStore() (empty func()) {
	n.Helper()
	filler := filepath.Join(n.storeDir(), ".tmp-filler")
	file, err := os.Create(filler)
	n.must(err)
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, os.Getpagesize()))
	}
	if !errors.Is(err, unix.ENOSPC) {
		n.Fatal(err)
	}
	return func() {
		n.Helper()
		n.must(os.Remove(filler))
	}
}

// hideBelowFullDisk mounts a tmpfs without free inodes over a directory until the returned function is called.
func (n *node) hideBelowFullDisk(dir string) (uncover func()) {
	n.Helper()
	n.must(unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=1"))
	return func() {
		n.Helper()
		n.must(unix.Unmount(dir, unix.MNT_DETACH))
	}
}

// images provides the sandbox image.
type images struct {
	engine *engine
	err    error
}

func (i *images) EnsureSandboxImage(context.Context) (string, error) { return pauseImage, i.err }

func (i *images) ReloadSandboxImage(ctx context.Context) (string, error) {
	return pauseImage, i.engine.TagImage(ctx, "spare", pauseImage)
}

// containers ends the containers of pods, as container.Service does.
type containers struct {
	node     *node
	restored sync.Map // ids
	leaving  sync.Map // ids of pods
	// unfinished has the id of a container that the cache lacks, by pod.
	unfinished sync.Map
	mu         sync.Mutex
	err        error
}

func (c *containers) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *containers) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *containers) Stop(ctx context.Context, id string, grace time.Duration) error {
	if err := c.failure(); err != nil {
		return err
	}
	if err := c.node.engine.StopContainer(ctx, id, grace); err != nil {
		return docker.IgnoreNotFound(err)
	}
	_, err := c.node.cache.RefreshContainer(ctx, id)
	return docker.IgnoreNotFound(err)
}

func (c *containers) Remove(ctx context.Context, id string) error {
	if err := c.failure(); err != nil {
		return err
	}
	if known, err := c.node.cache.Snapshot().Container(id); err == nil {
		if _, leaving := c.leaving.Load(known.SandboxID); !leaving {
			return fmt.Errorf("the pod of container %s is not marked as leaving", id)
		}
	}
	if err := docker.IgnoreNotFound(c.node.engine.RemoveContainer(ctx, id)); err != nil {
		return err
	}
	c.node.cache.RemoveContainer(id)
	return nil
}

func (c *containers) RemoveUnfinished(ctx context.Context, sandboxID string) error {
	id, found := c.unfinished.Load(sandboxID)
	if !found {
		return nil
	}
	return docker.IgnoreNotFound(c.node.engine.RemoveContainer(ctx, id.(string)))
}

// LeavePod marks the pod. Remove fails for a container of an unmarked pod.
func (c *containers) LeavePod(pod *state.Pod) func(bool) {
	c.leaving.Store(pod.ID, true)
	return func(bool) { c.leaving.Delete(pod.ID) }
}

// CheckpointAll leaves a directory for each container, after a second.
func (c *containers) CheckpointAll(_ context.Context, _ string, ids []string, dir string) error {
	time.Sleep(time.Second)
	for _, id := range ids {
		known, err := c.node.cache.Snapshot().Container(id)
		if err != nil {
			return err
		}
		if err := os.Mkdir(filepath.Join(dir, known.Meta.Config.GetMetadata().GetName()), 0o700); err != nil {
			return err
		}
	}
	return c.failure()
}

// Restore takes a second, and makes no container twice.
func (c *containers) Restore(
	_ context.Context, sandboxID string, config *runtimeapi.ContainerConfig, _ *runtimeapi.PodSandboxConfig, dir string,
) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	time.Sleep(time.Second)
	id := sandboxID + "/" + config.GetMetadata().GetName()
	if _, exists := c.restored.LoadOrStore(id, true); exists {
		return "", errdefs.ErrAlreadyExists
	}
	return id, c.failure()
}
