package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/internal/testutil"
)

// fixture is a node with the directories of a shim.
type fixture struct {
	t      *testing.T
	engine *dockertest.Engine
	opts   Options
	node   *Node
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	store, err := checkpoint.Open(t.TempDir())
	testutil.Must(t, err)
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root = t.TempDir()
	f := &fixture{t: t, engine: dockertest.New(
		dockertest.Options{Features: features, Images: []dockertest.Image{{Names: []string{"app:1"}}}})}
	t.Cleanup(func() { f.engine.Close() })
	f.opts = Options{
		Engine: f.engine, Store: store, RootDirectories: []string{t.TempDir(), t.TempDir()},
		CNICacheDirs: []string{t.TempDir()}, CNICacheDir: t.TempDir(), netnsDir: t.TempDir(), LogHistory: 1 << 20,
	}
	f.node = New(f.opts)
	return f
}

// container makes a container as cri-dockerd does.
func (f *fixture) container(name string, labels map[string]string, host *container.HostConfig) string {
	f.t.Helper()
	labels["io.kubernetes.pod.uid"] = "u"
	id, err := f.engine.CreateContainer(f.t.Context(), docker.ContainerSpec{
		Name: name, Config: &container.Config{Image: "app:1", Labels: labels, Hostname: "web", OpenStdin: true},
		Host: host,
	})
	testutil.Must(f.t, err)
	return id
}

func (f *fixture) sandbox(host *container.HostConfig) string {
	f.t.Helper()
	return f.container("k8s_POD_web_shop_u_2", map[string]string{
		translate.LabelKind: translate.LabelKindSandbox, translate.LabelContainerName: "POD", "annotation.a": "b",
	}, host)
}

func (f *fixture) member(sandbox string) string {
	f.t.Helper()
	return f.container("k8s_app_web_shop_u_5", map[string]string{
		translate.LabelKind: translate.LabelKindContainer, translate.LabelSandboxID: sandbox,
		translate.LabelLogPath: "/var/log/pods/shop_web_u/app/5.log",
	}, &container.HostConfig{NetworkMode: container.NetworkMode("container:" + sandbox)})
}

func (f *fixture) checkpoint(root int, id string, c *shimCheckpoint) {
	f.t.Helper()
	content, err := json.Marshal(c)
	testutil.Must(f.t, err)
	path := filepath.Join(f.opts.RootDirectories[root], shimDir, id)
	testutil.WriteFile(f.t, path, string(content))
}

func (f *fixture) plan() *Plan {
	f.t.Helper()
	plan, err := f.node.Plan(f.t.Context())
	testutil.Must(f.t, err)
	return plan
}

func (f *fixture) adopt() {
	f.t.Helper()
	list, err := f.node.list(f.t.Context())
	testutil.Must(f.t, err)
	testutil.Must(f.t, f.node.Adopt(f.t.Context(), list))
}

func (f *fixture) record(id string) (checkpoint.Record, *runtimeapi.PodSandboxConfig) {
	f.t.Helper()
	record, err := f.opts.Store.Load(f.t.Context(), id)
	testutil.Must(f.t, err)
	config := &runtimeapi.PodSandboxConfig{}
	testutil.Must(f.t, protojson.Unmarshal(record.Config, config))
	return record, config
}

// bound is the engine's configuration of a sandbox with a host port.
func bound() *container.HostConfig {
	return &container.HostConfig{NetworkMode: "none", Resources: container.Resources{CgroupParent: "/kubepods/podu"},
		PortBindings: network.PortMap{
			network.MustParsePort("80/tcp"): {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: "8080"}},
		}}
}

func TestAPodOfDockershim(t *testing.T) {
	f := newFixture(t)
	id := f.sandbox(bound())
	app := f.member(id)
	ports := []*runtimeapi.PortMapping{{ContainerPort: 80, HostPort: 8081}}
	shim := newCheckpoint(
		&runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop"},
			PortMappings: ports}, false)
	shim.Checksum = shimLayout{data: "dockershim", port: "dockershim"}.checksum(shim.Data)
	f.checkpoint(1, id, shim)
	plan := f.plan()
	testutil.Require(t, len(plan.pods) == 1 && plan.pods[0].name == "shop/web" && plan.pods[0].containers == 1 &&
		plan.pods[0].network == networkCNI, "got %+v", plan.pods)
	_, err := f.opts.Store.Load(t.Context(), id)
	testutil.Require(t, errdefs.IsNotFound(err), "a plan has recorded the pod: %v", err)
	f.adopt()
	record, config := f.record(id)
	testutil.Assert(t, record.Phase == checkpoint.PhaseReady && record.UID == "u" && record.Attempt == 2 &&
		strings.HasPrefix(record.NetnsPath, f.opts.netnsDir), "recorded %+v", record)
	want := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "shop", Uid: "u", Attempt: 2}, Hostname: "web",
		LogDirectory: "/var/log/pods/shop_web_u", PortMappings: ports,
		Labels: map[string]string{"io.kubernetes.pod.uid": "u"}, Annotations: map[string]string{"a": "b"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/kubepods/podu",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			}},
	}
	testutil.Assert(t, proto.Equal(config, want), "got  %v\nwant %v", config, want)
	inside := &runtimeapi.ContainerConfig{}
	testutil.Must(t, protojson.Unmarshal(record.Containers[app].Config, inside))
	testutil.Assert(t, inside.GetMetadata().GetAttempt() == 5 && inside.GetLogPath() == "app/5.log" &&
		inside.GetStdin(), "the container is recorded as %v", inside)
	left := f.plan()
	testutil.Assert(t, len(left.pods) == 0, "there is more to do: %+v", left.pods)
}

func TestWithoutACheckpointTheEngineTells(t *testing.T) {
	for name, damaged := range map[string]bool{"no checkpoint": false, "a damaged one": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			id := f.sandbox(bound())
			if damaged {
				shim := newCheckpoint(&runtimeapi.PodSandboxConfig{}, true)
				shim.Checksum++
				f.checkpoint(0, id, shim)
			}
			notes := strings.Join(f.plan().pods[0].notes, "\n")
			testutil.Assert(t, strings.Contains(notes, "checksum") == damaged, "the notes are %q", notes)
			f.adopt()
			record, config := f.record(id)
			want := &runtimeapi.PortMapping{ContainerPort: 80, HostPort: 8080, HostIp: "127.0.0.1"}
			testutil.Assert(t, len(config.PortMappings) == 1 && proto.Equal(config.PortMappings[0], want) &&
				record.NetnsPath != "", "got %v in %+v", config.PortMappings, record)
		})
	}
}

// A file that is too long to be read whole is not used, and a note names it. Its beginning alone could be another valid
// file.
func TestFilesThatAreTooLong(t *testing.T) {
	f := newFixture(t)
	id := f.sandbox(bound())
	sandbox, err := f.engine.InspectContainer(t.Context(), id)
	testutil.Must(t, err)
	shim := filepath.Join(f.opts.RootDirectories[0], shimDir, id)
	for path, begin := range map[string]string{sandbox.ResolvConfPath: "nameserver 10.0.0.10\n", shim: "{}"} {
		testutil.WriteFile(t, path, begin+strings.Repeat("\n", maxFile))
	}
	plan := f.plan().pods[0]
	notes := strings.Join(plan.notes, "\n")
	for _, path := range []string{sandbox.ResolvConfPath, shim} {
		testutil.Assert(t, strings.Contains(notes, path+" has more than 1048576 bytes"), "the notes are %q", notes)
	}
	testutil.Assert(t, !strings.Contains(string(plan.record.Config), "10.0.0.10"), "recorded %s", plan.record.Config)
}

func TestNetworksOfThePods(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   container.NetworkMode
		want   string
		pinned bool
	}{
		"a plugin's":   {"none", networkCNI, true},
		"the host's":   {"host", networkHost, false},
		"the engine's": {"default", networkDocker, false},
	} {
		f := newFixture(t)
		id := f.sandbox(&container.HostConfig{NetworkMode: tc.mode})
		testutil.Equal(t, f.plan().pods[0].network, tc.want, "%s: planned as", name)
		f.adopt()
		record, config := f.record(id)
		onHost := config.GetLinux().GetSecurityContext().GetNamespaceOptions().
			GetNetwork() == runtimeapi.NamespaceMode_NODE
		testutil.Assert(t, (record.NetnsPath != "") == tc.pinned && onHost == (tc.want == networkHost),
			"%s: recorded %+v with %v", name, record, config)
	}
}

func TestRuntimesOfThePods(t *testing.T) {
	const other = "io.containerd.runc.v2"
	for runtime, handler := range map[string]string{"": "", "runc": "", other: other} {
		f := newFixture(t)
		id := f.sandbox(&container.HostConfig{NetworkMode: "none", Runtime: runtime})
		f.adopt()
		record, _ := f.record(id)
		testutil.Assert(t, record.RuntimeHandler == handler && record.Runtime == runtime,
			"%q: recorded the runtime %q of handler %q", runtime, record.Runtime, record.RuntimeHandler)
	}
}

func TestPIDNamespacesOfThePods(t *testing.T) {
	for name, tc := range map[string]struct {
		mode func(sandbox, app string) string
		want runtimeapi.NamespaceMode
	}{
		"the sandbox's":           {func(sandbox, _ string) string { return sandbox }, runtimeapi.NamespaceMode_POD},
		"of a debugged container": {func(_, app string) string { return app }, runtimeapi.NamespaceMode_CONTAINER},
	} {
		f := newFixture(t)
		id := f.sandbox(bound())
		app := f.member(id)
		f.container("k8s_second_web_shop_u_0", map[string]string{
			translate.LabelKind: translate.LabelKindContainer, translate.LabelSandboxID: id,
		}, &container.HostConfig{PidMode: container.PidMode("container:" + tc.mode(id, app))})
		f.adopt()
		_, config := f.record(id)
		testutil.Equal(t, config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid(), tc.want,
			"%s: recorded as", name)
	}
}

func TestManyPodsAtOnce(t *testing.T) {
	f := newFixture(t)
	results := filepath.Join(f.opts.CNICacheDirs[0], "results")
	testutil.Must(t, os.Mkdir(results, 0o755))
	ids := map[string]string{}
	for i := range 3 * maxAdoptions {
		name := fmt.Sprint("web", i)
		id := f.container("k8s_POD_"+name+"_shop_u_0", map[string]string{
			translate.LabelKind: translate.LabelKindSandbox, translate.LabelContainerName: "POD",
		}, bound())
		ids[id] = name
		testutil.WriteFile(t, filepath.Join(results, "pods-"+id+"-eth0"),
			`{"kind":"cniCacheV1","containerId":"`+id+`","networkName":"pods","config":"e30="}`)
	}
	f.adopt()
	for id, name := range ids {
		record, _ := f.record(id)
		testutil.Assert(t, record.Name == name && record.Network.Config == "pods",
			"%s is recorded as %+v", name, record)
		_, err := os.Stat(filepath.Join(f.opts.CNICacheDir, "results", "pods-"+id+"-eth0"))
		testutil.Assert(t, err == nil, "%s: %v", name, err)
	}
}

func TestAPodOfWhichOnlyTheCheckpointIsLeft(t *testing.T) {
	f := newFixture(t)
	id := strings.Repeat("0123456789abcdef", 4)
	f.checkpoint(0, id,
		newCheckpoint(
			&runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "gone", Namespace: "shop"}},
			false))
	f.checkpoint(0, "not-an-id", newCheckpoint(&runtimeapi.PodSandboxConfig{}, false))
	f.adopt()
	record, _ := f.record(id)
	testutil.Assert(t, record.Name == "gone" && record.Namespace == "shop" && record.NetnsPath != "",
		"recorded %+v", record)
	testutil.Must(t, f.node.Forget(id))
	entries, err := os.ReadDir(filepath.Join(f.opts.RootDirectories[0], shimDir))
	testutil.Assert(t, err == nil && len(entries) == 1, "left: %v, %v", entries, err)
}

func TestContainersThatCRIDockerdMadeMeanwhile(t *testing.T) {
	f := newFixture(t)
	id := f.sandbox(bound())
	f.adopt()
	app := f.member(id)
	f.adopt()
	record, _ := f.record(id)
	testutil.Assert(t, record.Containers[app].Config != nil, "recorded %+v", record.Containers)
}

// failing is an engine that cannot inspect.
type failing struct {
	Engine
	err error
}

func (f failing) InspectContainer(context.Context, string) (*container.InspectResponse, error) {
	return nil, f.err
}

func TestAnEngineThatCannotInspect(t *testing.T) {
	f := newFixture(t)
	id := f.sandbox(bound())
	list, err := f.node.list(t.Context())
	testutil.Must(t, err)
	for _, tc := range []struct{ fails, want error }{
		{errdefs.ErrUnavailable, errdefs.ErrUnavailable}, // Adopt fails, and the cache calls it again
		{errdefs.ErrInternal, nil},                       // Adopt skips only this pod
	} {
		opts := f.opts
		opts.Engine = failing{f.engine, tc.fails}
		testutil.FailsWith(t, New(opts).Adopt(t.Context(), list), tc.want, "with %v", tc.fails)
	}
	// The operator sees that the plan leaves the pod out.
	f.opts.Engine = failing{f.engine, errdefs.ErrInternal}
	f.node = New(f.opts)
	var out strings.Builder
	testutil.Must(t, f.plan().Print(&out))
	testutil.Assert(t, strings.Contains(out.String(), id+" is left out"), "the plan is %s", out.String())
	err = f.node.Apply(t.Context(), f.plan())
	testutil.Assert(t, errdefs.IsInternal(err) && strings.Contains(err.Error(), id), "Apply without the pod: %v", err)
}

const asPeer = "CRIADAPTER_TEST_AS_PEER"

// TestMain acts as cri-dockerd in the process that startPeer starts.
func TestMain(m *testing.M) {
	if os.Getenv(asPeer) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test closes the pipe
		return
	}
	os.Exit(m.Run())
}

// startPeer starts a process that looks like a cri-dockerd on this engine.
func (f *fixture) startPeer() (stop func()) {
	f.t.Helper()
	return f.startProgram(peerProgram, peerEndpointFlag, f.opts.DockerEndpoint)
}

// startProgram starts a process with this name, these arguments and these open files.
func (f *fixture) startProgram(name, flag, value string, files ...*os.File) (stop func()) {
	f.t.Helper()
	self, err := os.Executable()
	testutil.Must(f.t, err)
	program := filepath.Join(f.t.TempDir(), name)
	testutil.Must(f.t, os.WriteFile(program, []byte(testutil.ReadFile(f.t, self)), 0o755))
	peer := exec.Command(program, flag, value)
	peer.Env, peer.ExtraFiles = append(os.Environ(), asPeer+"=1"), files
	input, err := peer.StdinPipe()
	testutil.Must(f.t, err)
	testutil.Must(f.t, peer.Start())
	stop = sync.OnceFunc(func() {
		testutil.Check(f.t, errors.Join(input.Close(), peer.Wait()))
	})
	f.t.Cleanup(stop)
	testutil.Eventually(f.t, func() error { // the kernel shows no arguments for a moment after exec
		arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", peer.Process.Pid))
		if err == nil && len(arguments) == 0 {
			err = errors.New("the peer has no arguments yet")
		}
		return err
	})
	return stop
}

// While cri-dockerd runs, Adopt takes nothing over. It fails if a running pod has no record, because the kubelet would
// replace a pod that is shown without its address.
func TestBesideARunningCRIDockerd(t *testing.T) {
	f := newFixture(t)
	f.opts.DockerEndpoint = "unix://" + filepath.Join(t.TempDir(), "docker.sock")
	f.node = New(f.opts)
	stop := f.startPeer()
	list := func() []container.Summary {
		list, err := f.node.list(t.Context())
		testutil.Must(t, err)
		return list
	}
	id := f.sandbox(bound())
	f.adopt() // a sandbox that does not run is taken over later
	testutil.Must(t, f.engine.StartContainer(t.Context(), id))
	err := f.node.Adopt(t.Context(), list())
	testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), "cri-dockerd runs"),
		"with a running pod: %v", err)
	stop()
	f.adopt()
	app := f.member(id)
	f.startPeer()
	f.adopt()
	record, _ := f.record(id)
	testutil.Assert(t, len(record.Containers) == 0,
		"container %s is taken over while cri-dockerd runs: %v", app, record.Containers)
}

// TestBesideAShimWithinAnotherProgram: k3s and old kubelets contain a shim, which only its socket shows. A socket that
// only criadapter holds does not count.
func TestBesideAShimWithinAnotherProgram(t *testing.T) {
	f := newFixture(t)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "shim.sock"), Net: "unix"})
	testutil.Must(t, err)
	defer listener.Close()
	socket, err := listener.File()
	testutil.Must(t, err)
	defer socket.Close()
	f.opts.innerShims = map[string]string{listener.Addr().String(): "k3s --docker"}
	f.node = New(f.opts)
	stop := f.startProgram("k3s", "server", "--docker", socket)
	testutil.Must(t, f.engine.StartContainer(t.Context(), f.sandbox(bound())))
	list, err := f.node.list(t.Context())
	testutil.Must(t, err)
	err = f.node.Adopt(t.Context(), list)
	testutil.Assert(t, errdefs.IsUnavailable(err) && strings.Contains(err.Error(), "k3s --docker runs on this machine"),
		"while it runs: %v", err)
	plan, err := f.node.Plan(t.Context())
	testutil.Must(t, err)
	testutil.Fails(t, f.node.Apply(t.Context(), plan), errdefs.IsUnavailable, "a plan while it runs")
	stop()
	f.adopt()
}

// broken is an engine that cannot inspect one container.
type broken struct {
	Engine
	id      string
	inspect func(ctx context.Context) error
}

func (b broken) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	if id == b.id {
		return nil, b.inspect(ctx)
	}
	return b.Engine.InspectContainer(ctx, id)
}

// TestAPodWithABrokenContainer takes the pod over, and hands it back. The kubelet would replace a pod without a record.
func TestAPodWithABrokenContainer(t *testing.T) {
	for name, inspect := range map[string]func(context.Context) error{
		"that the engine cannot describe": func(context.Context) error { return errdefs.ErrInternal },
		"that hangs":                      func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				id := f.sandbox(bound())
				f.opts.Engine = broken{f.engine, f.member(id), inspect}
				f.node = New(f.opts)
				f.adopt()
				record, _ := f.record(id)
				testutil.Assert(t, len(record.Containers) == 0, "recorded %+v", record)
				plan, err := f.node.PlanReturn(t.Context())
				testutil.Assert(t, err == nil && len(plan.pods) == 1, "handed back: %+v, %v", plan, err)
			})
		})
	}
}

func TestCRIDockerdOfAnEngineIsFound(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want bool
	}{
		{[]string{"cri-dockerd"}, true},
		{[]string{"cri-dockerd", "--docker-endpoint=unix:///elsewhere.sock"}, false},
		{[]string{"cri-dockerd", "--docker-endpoint", "unix:///elsewhere.sock"}, false},
		{[]string{"cri-dockerd", "--docker-endpoint", "unix:///var/run/docker.sock", "--v"}, true},
	} {
		used := engineOf(tc.args)
		testutil.Equal(t, drives(t.TempDir(), used, "unix:///var/run/docker.sock"), tc.want, "%q", tc.args)
	}
}

// A cri-dockerd in a container may drive an engine of its own, at the usual path.
func TestCRIDockerdOfAnotherEngine(t *testing.T) {
	root := t.TempDir()
	ours, theirs := filepath.Join(t.TempDir(), "docker.sock"), filepath.Join(root, "docker.sock")
	testutil.WriteFile(t, ours, "")
	testutil.Must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(ours)), 0o755))
	testutil.Must(t, os.Link(ours, filepath.Join(root, ours)))
	testutil.Assert(t, drives(root, "unix://"+ours, "unix://"+ours), "our engine's socket in a container")
	testutil.Must(t, os.Remove(filepath.Join(root, ours)))
	testutil.WriteFile(t, theirs, "")
	testutil.Must(t, os.Rename(theirs, filepath.Join(root, ours)))
	testutil.Assert(t, !drives(root, "unix://"+ours, "unix://"+ours), "the socket of another engine")
}
