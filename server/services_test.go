package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mobycontainer "github.com/moby/moby/api/types/container"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/cni"
	"github.com/criadapter/criadapter/container"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/image"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/sandbox"
	"github.com/criadapter/criadapter/state"
)

// stack is a server with its real services, on an engine in memory, seen through a gRPC connection. Its pods use the
// node's network: processes in memory have no network namespace.
type stack struct {
	engine  *dockertest.Engine
	conn    *grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	images  runtimeapi.ImageServiceClient
	// logs is the pods' log directory.
	logs string
	// pod and container are the ids of a running pod and its running container.
	pod, container string
}

func newStack(t *testing.T) *stack {
	t.Helper()
	dir := t.TempDir()
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.Root = filepath.Join(dir, "docker")
	known := []dockertest.Image{{Names: []string{"busybox", "value"}}}
	inMemory := dockertest.New(dockertest.Options{Features: features, Images: known, Registry: known})
	t.Cleanup(inMemory.Close)
	engine := withDirs{Engine: inMemory, root: features.Root}
	store, err := checkpoint.Open(filepath.Join(dir, "pods"))
	testutil.Must(t, err)
	images, err := image.New(image.Options{Engine: engine})
	testutil.Must(t, err)
	t.Cleanup(images.Close)
	follower := logs.New(logs.Options{})
	t.Cleanup(follower.Close)
	cache := state.New(state.Options{Engine: engine, Records: store})
	files := sandbox.NewFiles(filepath.Join(dir, "files"))
	containers := container.New(container.Options{
		Engine: engine, Cache: cache, Store: store, Images: images, Logs: follower, Files: files.Of,
	})
	cache.OnExit(containers.FinishExit)
	pods, err := cni.New(
		cni.Options{ConfDir: filepath.Join(dir, "net.d"), CacheDir: filepath.Join(dir, "cni"), DelOnly: true})
	testutil.Must(t, err)
	sandboxes := sandbox.New(sandbox.Options{
		Engine: engine, Cache: cache, Store: store, Images: images, Containers: containers, Files: files,
		Network: pods, EngineBridge: true,
	})
	t.Cleanup(sandboxes.Close)
	follow(t, cache)
	n := &node{
		Server: New(
			Options{Cache: cache, Engine: engine, Sandboxes: sandboxes, Containers: containers, Images: images,
				Stats: fakeStats{}, Streams: sessions{}})}
	conn := n.dial(t)
	return &stack{
		engine: inMemory, conn: conn, logs: filepath.Join(dir, "logs"),
		runtime: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn),
	}
}

// withDirs is an engine in memory that creates a directory per container, like a real engine. The log of a container is
// in it.
type withDirs struct {
	docker.Engine
	root string
}

func (e withDirs) CreateContainer(ctx context.Context, spec docker.ContainerSpec) (string, error) {
	id, err := e.Engine.CreateContainer(ctx, spec)
	if err != nil {
		return "", err
	}
	return id, os.MkdirAll(filepath.Join(e.root, "containers", id), 0o700)
}

// InspectContainer returns no log path for the log driver "local", like a real engine.
func (e withDirs) InspectContainer(ctx context.Context, id string) (*mobycontainer.InspectResponse, error) {
	inspect, err := e.Engine.InspectContainer(ctx, id)
	if err == nil && inspect.HostConfig.LogConfig.Type == logs.DriverLocal {
		inspect.LogPath = ""
	}
	return inspect, err
}

// follow runs a cache until the test ends.
func follow(t *testing.T, cache *state.Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := testutil.Go(func() error { return cache.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		testutil.FailsWith(t, <-done, context.Canceled, "the cache")
	})
}

// newStackWithPod has a running pod with a running container.
func newStackWithPod(t *testing.T) *stack {
	t.Helper()
	w := newStack(t)
	testutil.Must(t, w.runPod(t.Context()))
	return w
}

// runPod makes the pod and the container of the stack.
func (s *stack) runPod(ctx context.Context) error {
	run, err := s.runtime.RunPodSandbox(ctx, s.podRequest("web"))
	if err != nil {
		return err
	}
	s.pod = run.GetPodSandboxId()
	create, err := s.runtime.CreateContainer(ctx, s.containerRequest("main"))
	if err != nil {
		return err
	}
	s.container = create.GetContainerId()
	_, err = s.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: s.container})
	return err
}

func (s *stack) podConfig(name string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name + "-uid"},
		Hostname:     name,
		LogDirectory: filepath.Join(s.logs, name),
		DnsConfig: &runtimeapi.DNSConfig{Servers: []string{"10.0.0.10"}, Searches: []string{"cluster.local"},
			Options: []string{"ndots:5"}},
		Labels:      map[string]string{"app": name},
		Annotations: map[string]string{"note": name},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/kubepods/pod" + name,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: hostNetwork(),
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined},
			},
			Overhead:  &runtimeapi.LinuxContainerResources{},
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 100},
		},
	}
}

func hostNetwork() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_CONTAINER}
}

func (s *stack) podRequest(name string) *runtimeapi.RunPodSandboxRequest {
	return &runtimeapi.RunPodSandboxRequest{Config: s.podConfig(name)}
}

func (s *stack) containerRequest(name string) *runtimeapi.CreateContainerRequest {
	return &runtimeapi.CreateContainerRequest{
		PodSandboxId: s.pod,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name},
			Image:    &runtimeapi.ImageSpec{Image: "busybox"},
			Command:  []string{"sleep", "1000"},
			LogPath:  name + ".log",
			Linux: &runtimeapi.LinuxContainerConfig{
				Resources: &runtimeapi.LinuxContainerResources{CpuShares: 100, MemoryLimitInBytes: 64 << 20},
				SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
					Capabilities:     &runtimeapi.Capability{DropCapabilities: []string{"ALL"}},
					NamespaceOptions: hostNetwork(),
					RunAsUser:        &runtimeapi.Int64Value{Value: 1000},
					RunAsGroup:       &runtimeapi.Int64Value{Value: 1000},
					Seccomp: &runtimeapi.SecurityProfile{
						ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
				},
			},
		},
		SandboxConfig: s.podConfig("web"),
	}
}

// understandable are the codes with which a server may answer a request that makes no sense. Unknown and Internal mean
// faults of the server.
var understandable = map[codes.Code]bool{
	codes.OK: true, codes.InvalidArgument: true, codes.NotFound: true, codes.AlreadyExists: true,
	codes.FailedPrecondition: true, codes.Unimplemented: true,
}

// TestServicesSurviveRequestsWithoutAField is TestRequestsWithoutAField with the real services. It sends requests that
// make sense and requests full of nonsense, each whole and without each of its message fields.
func TestServicesSurviveRequestsWithoutAField(t *testing.T) {
	w := newStackWithPod(t)
	made := 0
	for _, r := range allRPCs(t) {
		if r.name == "GetContainerEvents" {
			continue // has no fields
		}
		t.Run(r.name, func(t *testing.T) {
			for _, request := range []func() proto.Message{
				func() proto.Message { return w.sensible(r, fmt.Sprintf("n%d", made)) },
				func() proto.Message { return w.aimed(r) },
			} {
				for _, path := range append(messageFields(request().ProtoReflect(), ""), "") {
					made++
					message := request()
					if path != "" {
						clearField(message.ProtoReflect(), path)
					}
					w.send(t, r, message, path)
				}
			}
		})
	}
}

// sensible returns a request that makes sense. A pod or container that it makes gets the name.
func (s *stack) sensible(r rpc, name string) proto.Message {
	switch r.name {
	case "RunPodSandbox":
		return s.podRequest(name)
	case "CreateContainer":
		return s.containerRequest(name)
	case "UpdateContainerResources":
		return &runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: s.container, Linux: &runtimeapi.LinuxContainerResources{CpuShares: 200},
		}
	default:
		return s.aimed(r)
	}
}

// aimed returns a request with a value in every field, mostly nonsense. It names the existing pod and container, unless
// it would end them.
func (s *stack) aimed(r rpc) proto.Message {
	request := fullRequest(r)
	switch r.name {
	case "StopPodSandbox", "RemovePodSandbox", "StopContainer", "RemoveContainer":
		return request
	}
	setIDs(request, s.pod, s.container)
	return request
}

func (s *stack) send(t *testing.T, r rpc, request proto.Message, without string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := r.call(ctx, s.conn, request)
	testutil.Assert(t, understandable[status.Code(err)], "without %q: %v", without, err)
	testutil.Assert(t, status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "value is required"),
		"without %q: %v, which names no field", without, err)
}

// TestPodsLife takes one pod through the RPCs, on all services.
func TestPodsLife(t *testing.T) {
	w := newStackWithPod(t)
	ctx := t.Context()
	pod, err := w.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: w.pod, Verbose: true})
	testutil.Must(t, err)
	testutil.Assert(t, pod.GetStatus().GetState() == runtimeapi.PodSandboxState_SANDBOX_READY &&
		len(pod.GetContainersStatuses()) == 1 && pod.GetInfo()["info"] != "", "got %v", pod)
	got, err := w.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: w.container[:12]})
	testutil.Must(t, err)
	img, err := w.images.ImageStatus(ctx,
		&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: "busybox"}})
	testutil.Must(t, err)
	st := got.GetStatus()
	testutil.Assert(t, st.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING &&
		st.GetImageId() == img.GetImage().GetId() && st.GetImageRef() == img.GetImage().GetRepoDigests()[0] &&
		st.GetLogPath() == filepath.Join(w.logs, "web", "main.log"),
		"got %v", st)
	_, err = w.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: w.container, Timeout: 1})
	testutil.Must(t, err)
	got, err = w.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: w.container})
	testutil.Must(t, err)
	st = got.GetStatus()
	testutil.Assert(t, st.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && st.GetReason() == "Error" &&
		st.GetFinishedAt() != 0, "after the stop: %v", st)
	for range 2 { // idempotent
		_, err = w.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: w.pod})
		testutil.Must(t, err)
		_, err = w.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: w.container})
		testutil.Must(t, err)
	}
	for range 2 {
		_, err = w.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: w.pod})
		testutil.Must(t, err)
	}
	pods, err := w.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	testutil.Must(t, err)
	containers, err := w.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	testutil.Must(t, err)
	testutil.Assert(t, len(pods.GetItems()) == 0 && len(containers.GetContainers()) == 0,
		"left: %v, %v", pods, containers)
}

// While the engine is away, changes fail, reads answer from the cache, and Status says why.
func TestEngineAwayIsUnavailable(t *testing.T) {
	w := newStackWithPod(t)
	ctx := t.Context()
	images, err := w.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	testutil.Must(t, err)
	w.engine.Away()
	_, runErr := w.runtime.RunPodSandbox(ctx, w.podRequest("late"))
	_, createErr := w.runtime.CreateContainer(ctx, w.containerRequest("late"))
	_, stopErr := w.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: w.pod})
	for what, err := range map[string]error{"run": runErr, "create": createErr, "stop": stopErr} {
		testutil.Assert(t, status.Code(err) == codes.Unavailable, "%s: %v, want Unavailable", what, err)
	}
	list, err := w.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	testutil.Assert(t, err == nil && len(list.GetContainers()) == 1, "the list: %v, %v", list, err)
	again, err := w.images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	testutil.Assert(t, err == nil && proto.Equal(again, images),
		"the list of images: %v, %v, it was %v", again, err, images)
	var ready *runtimeapi.RuntimeCondition
	testutil.Until(t, "RuntimeReady is false without an engine", func() bool {
		response, err := w.runtime.Status(ctx, &runtimeapi.StatusRequest{})
		testutil.Must(t, err)
		ready = response.GetStatus().GetConditions()[0]
		return !ready.GetStatus()
	})
	testutil.Assert(t, ready.GetType() == runtimeapi.RuntimeReady && ready.GetReason() != "" &&
		ready.GetMessage() != "", "got %v", ready)
}
