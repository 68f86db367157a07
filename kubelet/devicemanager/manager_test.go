package devicemanager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/kubelet/devicemanager/devicemanagertest"
	"github.com/criadapter/criadapter/kubelet/model"
)

const card = "example.com/card"

// fixture is a manager that runs.
type fixture struct {
	*Manager
	dir      string
	finished map[types.UID]bool
}

func start(t *testing.T, dir string) *fixture {
	t.Helper()
	f := &fixture{dir: dir, finished: map[types.UID]bool{}}
	var err error
	f.Manager, err = Open(Options{Dir: dir, RootDir: dir,
		Finished: func(uid types.UID) bool { return f.finished[uid] }, Changed: func() {},
		Event: func(_ bool, reason, message string) { t.Logf("%s: %s", reason, message) }})
	testutil.Must(t, err)
	testutil.Background(t, f.Run)
	testutil.Eventually(t, func() error { // Run removes the sockets of earlier plugins before it listens
		_, err := os.Stat(filepath.Join(dir, "kubelet.sock"))
		return err
	})
	return f
}

// has waits for the node's resources.
func (f *fixture) has(t *testing.T, capacity, allocatable int64) {
	t.Helper()
	testutil.Eventually(t, func() error {
		all, healthy := f.Resources()
		a, h := all[card], healthy[card]
		if a.Value() != capacity || h.Value() != allocatable {
			return fmt.Errorf("%d devices and %d healthy ones, want %d and %d", a.Value(), h.Value(), capacity,
				allocatable)
		}
		return nil
	})
}

func container(name string, count int64) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
		card: *resource.NewQuantity(count, resource.DecimalSI), v1.ResourceCPU: resource.MustParse("1")}}}
}

func pod(name string, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name)}, Spec: v1.PodSpec{Containers: containers}}
}

// apply returns the devices of a container, as the test plugin's variable CARDS lists them.
func (f *fixture) apply(t *testing.T, pod *v1.Pod, c v1.Container) (string, error) {
	t.Helper()
	config := &runtimeapi.ContainerConfig{Annotations: map[string]string{}}
	if err := f.Apply(t.Context(), pod, &c, config); err != nil {
		return "", err
	}
	for _, env := range config.GetEnvs() {
		if env.GetKey() == "CARDS" {
			return string(env.GetValue()), nil
		}
	}
	return "", nil
}

func (f *fixture) gets(t *testing.T, pod *v1.Pod, c v1.Container, want string) {
	t.Helper()
	got, err := f.apply(t, pod, c)
	testutil.Assert(t, err == nil && got == want, "%s/%s has %q, want %q: %v", pod.UID, c.Name, got, want, err)
}

// TestGrants gives each device to one container at a time, over restarts of the container and of the kubelet.
func TestGrants(t *testing.T) {
	dir := t.TempDir()
	f := start(t, dir)
	plugin := devicemanagertest.Start(t, dir, card, nil, "c", "a", "!b")
	f.has(t, 3, 2)
	first, second := pod("first", container("x", 1)), pod("second", container("x", 1))
	f.gets(t, first, first.Spec.Containers[0], "a")
	f.gets(t, second, second.Spec.Containers[0], "c")
	f.gets(t, first, first.Spec.Containers[0], "a") // again
	testutil.Equal(t, strings.Join(plugin.Calls(), "; "), "Allocate a; Allocate c", "calls")

	third := pod("third", container("x", 1))
	_, err := f.apply(t, third, third.Spec.Containers[0])
	testutil.Assert(t, errdefs.IsResourceExhausted(err) && strings.Contains(err.Error(), card), "%v", err)
	f.finished["first"] = true
	f.gets(t, third, third.Spec.Containers[0], "a")
	testutil.Must(t, f.Keep(func(uid types.UID) bool { return uid == "second" }))

	again, err := Open(Options{Dir: dir, RootDir: dir})
	testutil.Must(t, err)
	_, err = again.apply(t, second)
	testutil.Assert(t, errdefs.IsUnavailable(err), "before the plugin registers again: %v", err)
	_, firstHas := again.records.grants.Get("first", "x")
	secondHas, _ := again.records.grants.Get("second", "x")
	testutil.Assert(t, !firstHas && secondHas[card].Devices[0] == "c", "first %t, second %v", firstHas, secondHas)
	_, reported := again.resources()
	testutil.Assert(t, !reported, "the node's status loses its devices before the plugin can register again")
	again.opened = again.opened.Add(-goneAfter)
	counts, reported := again.resources()
	testutil.Assert(t, reported && counts == [2]int64{}, "after the wait for the plugin: %v, %t", counts, reported)
}

// resources returns the capacity and the allocatable number of cards. Reported says that both are known.
func (m *Manager) resources() (counts [2]int64, reported bool) {
	capacity, allocatable := m.Resources()
	all, hasAll := capacity[card]
	healthy, hasHealthy := allocatable[card]
	return [2]int64{all.Value(), healthy.Value()}, hasAll && hasHealthy
}

// apply applies the only container of a pod.
func (m *Manager) apply(t *testing.T, pod *v1.Pod) (*runtimeapi.ContainerConfig, error) {
	config := &runtimeapi.ContainerConfig{Annotations: map[string]string{}}
	return config, m.Apply(t.Context(), pod, &pod.Spec.Containers[0], config)
}

// TestApply adds all parts of a plugin's response. The pod's own annotations stay.
func TestApply(t *testing.T) {
	f := start(t, t.TempDir())
	plugin := devicemanagertest.Start(t, f.dir, card, &pluginapi.DevicePluginOptions{PreStartRequired: true}, "a")
	f.has(t, 1, 1)
	p := pod("p", container("x", 1))
	config := &runtimeapi.ContainerConfig{Envs: []*runtimeapi.KeyValue{{Key: "A"}},
		Annotations: map[string]string{"example.com/cards": "mine"}}
	testutil.Must(t, f.Apply(t.Context(), p, &p.Spec.Containers[0], config))
	testutil.Equal(t, config.GetEnvs()[0].GetKey()+" "+config.GetEnvs()[1].GetKey(), "CARDS A", "variables")
	testutil.Equal(t, config.GetAnnotations()["example.com/cards"], "mine", "annotation")
	device, mount := config.GetDevices()[0], config.GetMounts()[0]
	testutil.Equal(t, device.GetContainerPath()+" "+device.GetHostPath()+" "+device.GetPermissions(),
		"/dev/card-a /dev/null rw", "device")
	testutil.Assert(t, mount.GetReadonly() && mount.GetContainerPath() == "/cards", "mount %v", mount)
	_, err := f.apply(t, p, p.Spec.Containers[0])
	testutil.Must(t, err)
	testutil.Equal(t, strings.Join(plugin.Calls(), "; "), "Allocate a; PreStartContainer a; PreStartContainer a",
		"calls")
}

// TestInitContainers: the app containers get the devices of init containers, but not of sidecars.
func TestInitContainers(t *testing.T) {
	f := start(t, t.TempDir())
	devicemanagertest.Start(t, f.dir, card, &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true},
		"a", "b", "c")
	f.has(t, 3, 3)
	p := pod("p", container("app", 2))
	sidecar := container("sidecar", 1)
	sidecar.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
	p.Spec.InitContainers = []v1.Container{container("init", 2), sidecar, container("next", 1)}
	f.gets(t, p, p.Spec.InitContainers[0], "c,b") // as the plugin prefers
	f.gets(t, p, p.Spec.InitContainers[1], "b")
	f.gets(t, p, p.Spec.InitContainers[2], "c")
	f.gets(t, p, p.Spec.Containers[0], "c,a")
}

// TestPluginEnds: no container gets devices of a plugin that is gone. A new plugin of the same resource replaces it.
func TestPluginEnds(t *testing.T) {
	f := start(t, t.TempDir())
	plugin := devicemanagertest.Start(t, f.dir, card, nil, "a", "b")
	f.has(t, 2, 2)
	plugin.Set("a", "!b")
	f.has(t, 2, 1)
	plugin.Stop()
	f.has(t, 2, 0)
	p := pod("p", container("x", 1))
	_, err := f.apply(t, p, p.Spec.Containers[0])
	testutil.Assert(t, errdefs.IsUnavailable(err), "%v", err)
	f.mu.Lock()
	f.plugins[card].gone = f.plugins[card].gone.Add(-goneAfter)
	f.mu.Unlock()
	f.has(t, 0, 0)
	devicemanagertest.Start(t, f.dir, card, nil, "z")
	f.has(t, 1, 1)
	f.gets(t, p, p.Spec.Containers[0], "z")
}

// TestListOfAReplacedPlugin: the first list of an old plugin may come after the first list of its successor.
func TestListOfAReplacedPlugin(t *testing.T) {
	m, err := Open(Options{RootDir: t.TempDir(), Changed: func() {}, Event: func(bool, string, string) {}})
	testutil.Must(t, err)
	next := func() (p *plugin, ended context.Context) {
		ended, end := context.WithCancelCause(t.Context())
		return &plugin{name: card, number: m.number(), end: end}, ended
	}
	silent, _ := next()
	first, firstEnded := next()
	second, secondEnded := next()
	testutil.Must(t, m.update(first, map[string]bool{"a": true}))
	testutil.Must(t, m.update(second, map[string]bool{"b": true}))
	testutil.Assert(t, firstEnded.Err() != nil, "the first plugin goes on")
	for _, old := range []*plugin{first, silent} {
		err := m.update(old, map[string]bool{"c": true})
		testutil.Assert(t, errors.Is(err, errReplaced), "the list of a plugin that was replaced: %v", err)
	}
	testutil.Must(t, m.update(second, map[string]bool{"b": true, "d": true}))
	_, allocatable := m.Resources()
	count := allocatable[card]
	testutil.Assert(t, secondEnded.Err() == nil && count.Value() == 2, "%d devices, %v", count.Value(),
		secondEnded.Err())
}

// TestPluginThatNeverServes: an event reports a plugin that registers and never serves.
func TestPluginThatNeverServes(t *testing.T) {
	dir, events := t.TempDir(), make(chan string, 10)
	m, err := Open(Options{Dir: dir, RootDir: dir, Changed: func() {},
		Event: func(warning bool, reason, message string) {
			events <- fmt.Sprintf("%t %s: %s", warning, reason, message)
		}})
	testutil.Must(t, err)
	m.patience = 50 * time.Millisecond
	testutil.Background(t, m.Run)
	testutil.Must(t, devicemanagertest.Register(t.Context(), dir, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: "missing.sock", ResourceName: card}))
	testutil.Equal(t, testutil.Receive(t, events, "nothing is reported"), "true DevicePluginGone: "+card+
		": the plugin registered and never listed its devices: it does not serve within 50ms", "event")
}

// TestUnknownResource: a static pod waits for a plugin. A pod of the API server may have a resource that an
// administrator has added.
func TestUnknownResource(t *testing.T) {
	f := start(t, t.TempDir())
	p := pod("p", container("x", 1))
	f.gets(t, p, p.Spec.Containers[0], "")
	p.Annotations = map[string]string{model.AnnotationConfigSource: model.SourceFile}
	_, err := f.apply(t, p, p.Spec.Containers[0])
	testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), f.dir), "%v", err)
	off, err := Open(Options{RootDir: t.TempDir()})
	testutil.Must(t, err)
	_, err = off.apply(t, p)
	testutil.Assert(t, errdefs.IsFailedPrecondition(err) && strings.Contains(err.Error(), "--device-plugins-dir"), "%v",
		err)
}

// TestRegisterRefuses: the error names the field for which a registration is refused.
func TestRegisterRefuses(t *testing.T) {
	f := start(t, t.TempDir())
	for field, request := range map[string]*pluginapi.RegisterRequest{
		"version":        {Version: "v1alpha", Endpoint: "x", ResourceName: card},
		"resource_name:": {Version: pluginapi.Version, Endpoint: "x", ResourceName: "cpu"},
		"resource_name":  {Version: pluginapi.Version, Endpoint: "x", ResourceName: "example.com/a b"},
		"endpoint":       {Version: pluginapi.Version, Endpoint: "../x", ResourceName: card},
		"endpoint:":      {Version: pluginapi.Version, ResourceName: card},
	} {
		err := devicemanagertest.Register(t.Context(), f.dir, request)
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), field), "%v: %v", request, err)
	}
}

// TestRunWaitsForRegister ends Run while a registration is handled.
func TestRunWaitsForRegister(t *testing.T) {
	dir, began := t.TempDir(), make(chan struct{})
	var handled atomic.Bool
	m, err := Open(Options{Dir: dir, RootDir: dir, Event: func(bool, string, string) {
		close(began)
		time.Sleep(100 * time.Millisecond) // longer than the server needs to end its connections
		handled.Store(true)
	}})
	testutil.Must(t, err)
	stop := testutil.Background(t, m.Run)
	refused := testutil.Go(func() error {
		return devicemanagertest.Register(t.Context(), dir, &pluginapi.RegisterRequest{Version: "v1alpha"})
	})
	<-began
	stop()
	testutil.Assert(t, handled.Load(), "Run returned before the registration was handled")
	testutil.Assert(t, <-refused != nil, "the registration was accepted")
}

// TestServeEndsWithItsListener: a plugin that is connected does not keep serve from returning the listener's error.
func TestServeEndsWithItsListener(t *testing.T) {
	dir := t.TempDir()
	m, err := Open(Options{Dir: dir, RootDir: dir, Changed: func() {}, Event: func(bool, string, string) {}})
	testutil.Must(t, err)
	listener, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	testutil.Must(t, err)
	ended := testutil.Go(func() error { return m.serve(t.Context(), listener) })
	devicemanagertest.Start(t, dir, card, nil, "a")
	(&fixture{Manager: m}).has(t, 1, 1)
	testutil.Must(t, listener.Close())
	err = testutil.Receive(t, ended, "serve waits for the plugin")
	testutil.FailsWith(t, err, net.ErrClosed, "a closed listener")
}

// TestClearSockets removes the sockets of earlier plugins, so that they register again, and nothing else.
func TestClearSockets(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, "plugin.sock"))
	testutil.Must(t, err)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	testutil.Must(t, listener.Close())
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	testutil.Must(t, clearSockets(dir))
	entries, err := os.ReadDir(dir)
	testutil.Assert(t, err == nil && len(entries) == 1 && entries[0].Name() == "file", "left: %v, %v", entries, err)
}
