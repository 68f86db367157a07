package sandbox

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	engineapi "github.com/moby/moby/api/types/network"
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

// node is a Service with everything that it calls. The checkpoint store and the pins are real. The engine is in memory,
// but its sandboxes have real network namespaces. The network, images and containers are in memory.
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
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.cache.Run(ctx)
	}()
	n.stopCache = func() {
		cancel()
		<-ended
	}
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
			n.Errorf("the namespaces of pod %s: being there is not %v (%v)", id[:8], want, err)
		}
		return
	}
	inspect, err := n.engine.InspectContainer(n.Context(), id)
	testutil.Assert(n, err == nil && inspect.State.Running == want,
		"container %s: running is not %v (%v)", id[:8], want, err)
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

// engine is an engine in memory whose running containers have a real process in a network namespace of its own.
type engine struct {
	*dockertest.Engine
	// bridge says that the engine has a bridge, on which running pods have this address.
	bridge  bool
	address netip.Addr
	// runtime says that the engine has criadapter-oci. driver replaces its cgroup driver unless empty.
	runtime bool
	driver  string
	// peer is the engine's process id. 0 means this process.
	peer int

	mu        sync.Mutex
	processes map[string]*process
	// creating is called before a container is created.
	creating func(docker.ContainerSpec)
	// started is called after a container has started.
	started func(id string)
}

type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func (e *engine) CreateContainer(ctx context.Context, spec docker.ContainerSpec) (string, error) {
	if e.creating != nil {
		e.creating(spec)
	}
	if e.runtime {
		spec.Note = nil // the engine in memory knows no runtimes
	}
	return e.Engine.CreateContainer(ctx, spec)
}

func (e *engine) StartContainer(ctx context.Context, id string) error {
	if err := e.Engine.StartContainer(ctx, id); err != nil {
		return err
	}
	e.newProcess(id)
	if e.started != nil {
		e.started(id)
	}
	return nil
}

// newProcess starts a process for a container and ends its old one.
func (e *engine) newProcess(id string) {
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		panic(fmt.Sprintf("cannot start a process in a network namespace: %v", err))
	}
	e.endProcess(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.processes[id] = &process{cmd, stdin}
}

func (e *engine) endProcess(id string) {
	e.mu.Lock()
	p := e.processes[id]
	delete(e.processes, id)
	e.mu.Unlock()
	if p != nil {
		_ = p.stdin.Close()
		_ = p.cmd.Wait()
	}
}

// Features applies runtime, driver and peer.
func (e *engine) Features(ctx context.Context) (docker.Features, error) {
	features, err := e.Engine.Features(ctx)
	if e.runtime {
		features.OCIRuntime.Name, features.OCIRuntime.UserNamespaces = "criadapter", true
	}
	features.Process = cmp.Or(e.peer, os.Getpid())
	features.CgroupDriver = cmp.Or(e.driver, features.CgroupDriver)
	return features, err
}

func (e *engine) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	err := e.Engine.StopContainer(ctx, id, grace)
	if err == nil {
		e.endProcess(id)
	}
	return err
}

func (e *engine) RemoveContainer(ctx context.Context, id string) error {
	err := e.Engine.RemoveContainer(ctx, id)
	if err == nil {
		e.endProcess(id)
	}
	return err
}

func (e *engine) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	inspect, err := e.Engine.InspectContainer(ctx, id)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.processes[inspect.ID]; p != nil && inspect.State.Running {
		inspect.State.Pid = p.cmd.Process.Pid
	}
	if e.bridge && inspect.State.Running && !inspect.HostConfig.NetworkMode.IsHost() {
		inspect.NetworkSettings.Networks = map[string]*engineapi.EndpointSettings{
			"bridge": {IPAddress: e.address},
		}
	}
	return inspect, nil
}

// end ends all processes and the engine.
func (e *engine) end() {
	e.mu.Lock()
	var ids []string
	for id := range e.processes {
		ids = append(ids, id)
	}
	e.mu.Unlock()
	for _, id := range ids {
		e.endProcess(id)
	}
	e.Close()
}

// network is a CNI network in memory. Like the real one it demands a live namespace for ADD.
type network struct {
	mu     sync.Mutex
	joined map[string]cni.Pod
	given  int
	dels   int
	// onAdd and onDel are called at the beginning; their errors fail the call.
	onAdd func(ctx context.Context, pod cni.Pod) error
	onDel func(ctx context.Context, pod cni.Pod) error
	// keepOnError makes a failed Add keep the address, as if the DEL that undoes it failed too.
	keepOnError bool
	// collected has the pods that each GC got.
	collected [][]string
	// deadDels counts the Dels that found no namespace.
	deadDels int
}

func (w *network) Add(ctx context.Context, pod cni.Pod) (*cni.Result, error) {
	w.mu.Lock()
	onAdd, keep := w.onAdd, w.keepOnError
	w.mu.Unlock()
	if !netns.Open(pod.NetnsPath).Alive() {
		return nil, fmt.Errorf("no namespace at %s: %w", pod.NetnsPath, errdefs.ErrFailedPrecondition)
	}
	if onAdd != nil {
		if err := onAdd(ctx, pod); err != nil {
			if !keep {
				return nil, err
			}
			w.join(pod)
			return nil, &cni.NotUndoneError{Add: err, Undo: errors.New("and DEL failed as well")}
		}
	}
	given := w.join(pod)
	return &cni.Result{Config: "net", IPs: []string{fmt.Sprintf("10.88.0.%d", given), fmt.Sprintf("fd00::%d", given)},
		Raw: []byte(`{"cniVersion":"1.1.0"}`)}, nil
}

func (w *network) join(pod cni.Pod) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.joined[pod.ID] = pod
	w.given++
	return w.given
}

func (w *network) Del(ctx context.Context, pod cni.Pod, _ string) error {
	w.mu.Lock()
	w.dels++
	onDel := w.onDel
	if !netns.Open(pod.NetnsPath).Alive() {
		w.deadDels++
	}
	w.mu.Unlock()
	if onDel != nil {
		if err := onDel(ctx, pod); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.joined, pod.ID)
	return nil
}

func (w *network) Joined(id string) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, joined := w.joined[id]
	return joined, nil
}

func (w *network) Attached() (map[string]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths := map[string]string{}
	for id, pod := range w.joined {
		paths[id] = pod.NetnsPath
	}
	return paths, nil
}

func (w *network) GC(_ context.Context, pods []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.collected = append(w.collected, pods)
	return nil
}

func (w *network) failAdd(err error) { w.set(func() { w.onAdd = failing(err) }) }
func (w *network) failDel(err error) { w.set(func() { w.onDel = failing(err) }) }

func (w *network) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func failing(err error) func(context.Context, cni.Pod) error {
	if err == nil {
		return nil
	}
	return func(context.Context, cni.Pod) error { return err }
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
	node *node
	mu   sync.Mutex
	err  error
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
	if err := docker.IgnoreNotFound(c.node.engine.RemoveContainer(ctx, id)); err != nil {
		return err
	}
	c.node.cache.RemoveContainer(id)
	return nil
}

// CheckpointAll leaves a file in the directory of each container.
func (c *containers) CheckpointAll(_ context.Context, _ string, ids []string, dir string) error {
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

func (c *containers) Restore(
	_ context.Context, sandboxID string, config *runtimeapi.ContainerConfig, _ *runtimeapi.PodSandboxConfig, dir string,
) (string, error) {
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	return sandboxID + "/" + config.GetMetadata().GetName(), c.failure()
}
