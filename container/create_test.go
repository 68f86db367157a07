package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

func TestCreate(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	config := n.config("sleep", "1")
	config.LogPath = "c/0.log"
	id := n.create(pod, config)

	c := n.look(id)
	testutil.Assert(t, c.SandboxID == pod && c.Status.State() == runtimeapi.ContainerState_CONTAINER_CREATED,
		"the container is %v in %s", c.Status.State(), c.SandboxID)
	testutil.Assert(t, proto.Equal(c.Meta.Config, config),
		"the cache's configuration is %v, want %v", c.Meta.Config, config)
	want := filepath.Join(n.dir, "pods", "c", "0.log")
	testutil.Assert(t, c.Meta.LogPath == want, "log path %q, want %q", c.Meta.LogPath, want)
	info, err := os.Stat(filepath.Join(n.dir, "pods", "c"))
	testutil.Assert(t, err == nil && info.IsDir(), "no log directory: %v", err)
	record, err := n.store.Load(t.Context(), pod)
	testutil.Must(t, err)
	stored := &runtimeapi.ContainerConfig{}
	if err := protojson.Unmarshal(record.Containers[id].Config, stored); err != nil || !proto.Equal(stored, config) {
		t.Errorf("the checkpoint's configuration is %v (%v), want %v", stored, err, config)
	}
}

func TestCreateRefuses(t *testing.T) {
	tests := []struct {
		name   string
		change func(n *node, pod *string, config *runtimeapi.ContainerConfig)
		is     func(error) bool
		text   string
	}{
		{"unknown sandbox", func(_ *node, pod *string, _ *runtimeapi.ContainerConfig) {
			*pod = "feedbeef"
		}, errdefs.IsNotFound, "feedbeef"},
		{"no sandbox", func(_ *node, pod *string, _ *runtimeapi.ContainerConfig) {
			*pod = ""
		}, errdefs.IsInvalidArgument, "sandbox"},
		{"sandbox not ready", func(n *node, pod *string, _ *runtimeapi.ContainerConfig) {
			n.cache.UpdatePod(*pod, func(s *state.PodStatus) { s.Stopping = true })
		}, errdefs.IsFailedPrecondition, "not ready"},
		{"no image", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.Image = nil
		}, errdefs.IsInvalidArgument, "config.image.image"},
		{"missing image", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.Image.Image = "missing:1"
		}, errdefs.IsNotFound, "pull"},
		{"no metadata", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.Metadata = nil
		}, errdefs.IsInvalidArgument, "config.metadata"},
		{"impossible mount source", func(n *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{
				{HostPath: n.dir, ContainerPath: "/a"},
				{HostPath: "/dev/null/below", ContainerPath: "/b"},
			}
		}, errdefs.IsInvalidArgument, "config.mounts[1].host_path"},
		{"relative mount source", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{HostPath: "etc", ContainerPath: "/a"}}
		}, errdefs.IsInvalidArgument, "config.mounts[0].host_path"},
		{"log path outside", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.LogPath = "../x.log"
		}, errdefs.IsInvalidArgument, "config.log_path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := newFakeNode(t)
			pod := n.pod()
			asked, config := pod, n.config("sleep")
			tt.change(n, &asked, config)
			_, err := n.Create(t.Context(), asked, config, nil)
			testutil.Assert(t, err != nil && tt.is(err) && strings.Contains(err.Error(), tt.text),
				"Create: %v, want an error of the test's type with %q", err, tt.text)
			n.wantNothing(pod)
		})
	}
	t.Run("no configuration", func(t *testing.T) {
		n, _ := newFakeNode(t)
		_, err := n.Create(t.Context(), n.pod(), nil, nil)
		testutil.Assert(t, errdefs.IsInvalidArgument(err), "Create: %v", err)
	})
}

// labelledEngine shows an SELinux label of each container.
type labelledEngine struct {
	*dockertest.Engine
}

func (e labelledEngine) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	inspect, err := e.Engine.InspectContainer(ctx, id)
	if err == nil {
		inspect.ProcessLabel = "system_u:system_r:container_t:s0:c7,c8"
	}
	return inspect, err
}

// Docker would give the container a level of its own, and the pod's other containers could not read its files.
func TestCreateWithSELinuxType(t *testing.T) {
	features := dockertest.DefaultFeatures(dockertest.Docker20)
	features.SELinux = true
	plain, inner := newNodeOn(t, dockertest.Options{Features: features})
	plain.shutDown()
	n := newNode(t, labelledEngine{inner}, "busybox", "pause")
	pod, config := n.pod(), n.config("sleep", "1")
	config.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
		SelinuxOptions: &runtimeapi.SELinuxOption{Type: "own_t"},
	}}
	inspect, err := n.engine.InspectContainer(t.Context(), n.create(pod, config))
	testutil.Must(t, err)
	got := inspect.HostConfig.SecurityOpt
	testutil.Assert(t, slices.Contains(got, "label=type:own_t") && slices.Contains(got, "label=level:s0:c7,c8"),
		"got %q", got)
}

func TestCreateTwice(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.createdInPod()
	_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
	testutil.Assert(t, errdefs.IsAlreadyExists(err) && strings.Contains(err.Error(), id),
		"Create of the same name: %v, want ErrAlreadyExists with the id", err)
	again := n.config("sleep")
	again.Metadata.Attempt = 1
	n.create(pod, again)
	n.wantState(id, runtimeapi.ContainerState_CONTAINER_CREATED)
}

// A pod without a checkpoint has no log directory. Create takes it from the pod configuration in the request.
func TestCreateInAPodKnownFromItsLabels(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	known := n.knownPod(pod)
	full := known.Meta.Config
	bare := *known
	bare.Meta.Config = &runtimeapi.PodSandboxConfig{Metadata: full.GetMetadata()}
	n.cache.PutPod(bare)
	config := n.config("sleep")
	config.LogPath = "sleep.log"

	stranger := proto.CloneOf(full)
	stranger.Metadata.Uid = "another"
	for attempt, test := range []struct {
		config *runtimeapi.PodSandboxConfig
		want   string
	}{
		{nil, ""},
		{full, filepath.Join(full.GetLogDirectory(), "sleep.log")},
	} {
		config.Metadata.Attempt = uint32(attempt)
		id, err := n.Create(t.Context(), pod, config, test.config)
		testutil.Must(t, err)
		testutil.Equal(t, n.look(id).Meta.LogPath, test.want, "attempt %d: log path", attempt)
	}
	config.Metadata.Attempt = 9
	_, err := n.Create(t.Context(), pod, config, stranger)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), "sandbox_config.metadata: "),
		"with another pod's configuration: %v", err)
}

// For a privileged ephemeral container in an ordinary pod, the kubelet also sets privileged in the pod's configuration.
func TestCreatePrivileged(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	known := n.knownPod(pod)
	privileged := proto.CloneOf(known.Meta.Config)
	privileged.Linux = &runtimeapi.LinuxPodSandboxConfig{
		SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{Privileged: true}}
	stranger := proto.CloneOf(privileged)
	stranger.Metadata.Uid = "another"
	ordinary := proto.CloneOf(privileged)
	ordinary.Linux.SecurityContext.Privileged = false

	for i, tt := range []struct {
		name             string
		stored, inCreate *runtimeapi.PodSandboxConfig
		allowed          bool
	}{
		{"the request allows privileged containers", ordinary, privileged, true},
		{"the request forbids privileged containers", privileged, ordinary, false},
		{"another pod's configuration", ordinary, stranger, false},
		{"no configuration, an ordinary pod", ordinary, nil, false},
		{"no configuration, a privileged pod", privileged, nil, true},
	} {
		entry := *known
		entry.Meta.Config = tt.stored
		n.cache.PutPod(entry)
		config := n.config("sleep")
		config.Metadata.Attempt = uint32(i)
		config.Linux = &runtimeapi.LinuxContainerConfig{
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{Privileged: true}}
		id, err := n.Create(t.Context(), pod, config, tt.inCreate)
		if !tt.allowed {
			if !errdefs.IsInvalidArgument(err) ||
				!strings.Contains(err.Error(), "privileged") &&
					!strings.HasPrefix(err.Error(), "sandbox_config.metadata: ") {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if inspect, err := n.engine.InspectContainer(t.Context(), id); err != nil || !inspect.HostConfig.Privileged {
			t.Errorf("%s: the engine's container is not privileged, %v", tt.name, err)
		}
	}
	testutil.Assert(t, !ordinary.GetLinux().GetSecurityContext().GetPrivileged(),
		"the cache's own configuration was changed")
}

// The cache has the digest reference of a container's image, also after a restart.
func TestCreateKeepsTheImagesDigest(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	config := n.config("sleep")
	config.Image.Image = "app:1"
	id := n.create(pod, config)
	for range 2 {
		got := n.look(id).Meta
		testutil.Assert(t, got.ImageRef == appDigest && got.ImageID != appDigest,
			"reference %q, id %q", got.ImageRef, got.ImageID)
		n.restart(func() {})
	}
}

// Only one of many requests with the same name gets a container.
func TestCreateAtTheSameTime(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	var mu sync.Mutex
	var ids []string
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			id, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ids = append(ids, id)
			} else if !errdefs.IsAlreadyExists(err) {
				t.Errorf("Create: %v", err)
			}
		})
	}
	group.Wait()
	testutil.Assert(t, len(ids) == 1, "%d requests got a container: %v", len(ids), ids)
	got := n.cache.Snapshot().ContainersOf(pod)
	testutil.Assert(t, len(got) == 1, "the pod has %d containers", len(got))
}

// The next Create of a name removes the container of a Create whose answer from the engine was lost.
func TestCreateRemovesWhatALostAnswerLeft(t *testing.T) {
	for name, fault := range map[string]dockertest.Fault{
		"engine away":   {Times: 1, AfterEffect: true},
		"context ended": {Times: 1, AfterEffect: true, Delay: 200 * time.Millisecond, Err: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			n, engine := newFakeNode(t)
			pod := n.pod()
			engine.Inject("CreateContainer", fault)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := n.Create(ctx, pod, n.config("sleep"), nil)
			testutil.Require(t, err != nil, "Create succeeded")
			n.create(pod, n.config("sleep"))
			got := n.cache.Snapshot().ContainersOf(pod)
			testutil.Assert(t, len(got) == 1, "the pod has %d containers", len(got))
		})
	}
}

// criadapter died between the engine's create and the checkpoint: the cache
// shows the container from its labels, and the same request gets a new one.
func TestCreateRemovesWhatACrashLeft(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.createdInPod()
	n.restart(func() {
		testutil.Must(t, n.dropRecord(t.Context(), pod, id))
	})
	n.wantState(id, runtimeapi.ContainerState_CONTAINER_CREATED)
	again := n.create(pod, n.config("sleep"))
	testutil.Assert(t, again != id, "the client got a container without a recorded configuration")
	_, err := n.engine.InspectContainer(t.Context(), id)
	testutil.Assert(t, errdefs.IsNotFound(err), "the leftover is still there: %v", err)
}

func TestCreateLeavesForeignContainersAlone(t *testing.T) {
	n, engine := newFakeNode(t)
	pod := n.pod()
	c := n.look(n.create(pod, n.config("sleep")))
	spec, err := n.prepare(t.Context(), n.knownPod(pod), n.config("sleep"))
	testutil.Must(t, err)
	testutil.Must(t, n.Remove(t.Context(), c.ID))
	spec.spec.Config.Labels = nil
	foreign, err := engine.CreateContainer(t.Context(), spec.spec)
	testutil.Must(t, err)
	_, err = n.Create(t.Context(), pod, n.config("sleep"), nil)
	testutil.Fails(t, err, errdefs.IsAlreadyExists, "Create")
	_, err = engine.InspectContainer(t.Context(), foreign)
	testutil.Check(t, err, "somebody else's container")
}

func TestCreateRollsBack(t *testing.T) {
	t.Run("the cache cannot look at it", func(t *testing.T) {
		n, engine := newFakeNode(t)
		pod := n.pod()
		remove := engine.Inject("InspectContainer", dockertest.Fault{Err: errors.New("broken")})
		_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
		remove()
		testutil.Assert(t, err != nil && strings.Contains(err.Error(), "broken"), "Create: %v", err)
		n.wantNothing(pod)
	})
	t.Run("the checkpoint cannot be written", func(t *testing.T) {
		n, _ := newFakeNode(t)
		pod := n.pod()
		n.withoutStore(func() {
			_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
			testutil.Assert(t, err != nil, "Create succeeded without a checkpoint")
		})
		n.wantNothing(pod)
	})
	t.Run("the pod stops meanwhile", func(t *testing.T) {
		n, engine := newFakeNode(t)
		pod := n.pod()
		engine.Inject("CreateContainer", dockertest.Fault{Delay: 100 * time.Millisecond})
		time.AfterFunc(20*time.Millisecond, func() {
			n.cache.UpdatePod(pod, func(s *state.PodStatus) { s.Stopping = true })
		})
		_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
		testutil.Assert(t, errdefs.IsFailedPrecondition(err), "Create: %v", err)
		n.wantNothing(pod)
	})
}

func TestCreateWhileTheEngineIsAway(t *testing.T) {
	n, engine := newFakeNode(t)
	pod := n.pod()
	n.engineAway(engine)
	_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
	testutil.Assert(t, errdefs.IsUnavailable(err), "Create: %v", err)
}

// A pod of another shim has no checkpoint; its containers live without one.
func TestCreateInAPodWithoutCheckpoint(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	testutil.Must(t, n.store.Delete(t.Context(), pod))
	id := n.started(pod, n.config("sleep"))
	_, err := n.store.Load(t.Context(), pod)
	testutil.Assert(t, errdefs.IsNotFound(err), "a checkpoint was made for a pod without one: %v", err)
	testutil.Check(t, n.Remove(t.Context(), id), "Remove")
}
