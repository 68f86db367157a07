package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

func TestCreate(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	config := n.config("sleep", "1")
	config.LogPath = "c/0.log"
	id := n.create(pod, config)

	c := n.look(id)
	if c.SandboxID != pod || c.Status.State() != runtimeapi.ContainerState_CONTAINER_CREATED {
		t.Errorf("the container is %v in %s", c.Status.State(), c.SandboxID)
	}
	if !proto.Equal(c.Meta.Config, config) {
		t.Errorf("the mirror's configuration is %v, want %v", c.Meta.Config, config)
	}
	if want := filepath.Join(n.dir, "pods", "c", "0.log"); c.Meta.LogPath != want {
		t.Errorf("log path %q, want %q", c.Meta.LogPath, want)
	}
	if info, err := os.Stat(filepath.Join(n.dir, "pods", "c")); err != nil || !info.IsDir() {
		t.Errorf("no log folder: %v", err)
	}
	record, err := n.store.Load(pod)
	if err != nil {
		t.Fatal(err)
	}
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
		{"unknown sandbox", func(_ *node, pod *string, _ *runtimeapi.ContainerConfig) { *pod = "feedbeef" }, errdefs.IsNotFound, "feedbeef"},
		{"no sandbox", func(_ *node, pod *string, _ *runtimeapi.ContainerConfig) { *pod = "" }, errdefs.IsInvalidArgument, "sandbox"},
		{"sandbox not ready", func(n *node, pod *string, _ *runtimeapi.ContainerConfig) {
			n.mirror.UpdatePod(*pod, func(s *state.PodStatus) { s.Stopping = true })
		}, errdefs.IsFailedPrecondition, "not ready"},
		{"no image", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) { c.Image = nil }, errdefs.IsInvalidArgument, "config.image.image"},
		{"missing image", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) { c.Image.Image = "missing:1" }, errdefs.IsNotFound, "pull"},
		{"no metadata", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) { c.Metadata = nil }, errdefs.IsInvalidArgument, "config.metadata"},
		{"missing mount source", func(n *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{
				{HostPath: n.dir, ContainerPath: "/a"},
				{HostPath: filepath.Join(n.dir, "missing"), ContainerPath: "/b"},
			}
		}, errdefs.IsInvalidArgument, "config.mounts[1].host_path"},
		{"relative mount source", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{HostPath: "etc", ContainerPath: "/a"}}
		}, errdefs.IsInvalidArgument, "config.mounts[0].host_path"},
		{"log path outside", func(_ *node, _ *string, c *runtimeapi.ContainerConfig) { c.LogPath = "../x.log" }, errdefs.IsInvalidArgument, "config.log_path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, _ := newFakeNode(t)
			pod := n.pod()
			asked, config := pod, n.config("sleep")
			tt.change(n, &asked, config)
			_, err := n.Create(t.Context(), asked, config, nil)
			if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Create: %v; want another type, or %q in it", err, tt.text)
			}
			n.wantNothing(pod)
		})
	}
	t.Run("no configuration", func(t *testing.T) {
		n, _ := newFakeNode(t)
		if _, err := n.Create(t.Context(), n.pod(), nil, nil); !errdefs.IsInvalidArgument(err) {
			t.Errorf("Create: %v", err)
		}
	})
}

func TestCreateTwice(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	id := n.create(pod, n.config("sleep"))
	if _, err := n.Create(t.Context(), pod, n.config("sleep"), nil); !errdefs.IsAlreadyExists(err) || !strings.Contains(err.Error(), id) {
		t.Errorf("Create of the same name: %v, want ErrAlreadyExists with the id", err)
	}
	again := n.config("sleep")
	again.Metadata.Attempt = 1
	n.create(pod, again)
	n.wantState(id, runtimeapi.ContainerState_CONTAINER_CREATED)
}

// A pod without a checkpoint does not know its log folder; the request does.
func TestCreateInAPodKnownFromItsLabels(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	known, err := n.mirror.Snapshot().Pod(pod)
	if err != nil {
		t.Fatal(err)
	}
	full := known.Meta.Config
	bare := *known
	bare.Meta.Config = &runtimeapi.PodSandboxConfig{Metadata: full.GetMetadata()}
	n.mirror.PutPod(bare)
	config := n.config("sleep")
	config.LogPath = "sleep.log"

	stranger := proto.Clone(full).(*runtimeapi.PodSandboxConfig)
	stranger.Metadata.Uid = "another"
	for attempt, test := range []struct {
		config *runtimeapi.PodSandboxConfig
		want   string
	}{
		{nil, ""},
		{stranger, ""},
		{full, filepath.Join(full.GetLogDirectory(), "sleep.log")},
	} {
		config.Metadata.Attempt = uint32(attempt)
		id, err := n.Create(t.Context(), pod, config, test.config)
		if err != nil {
			t.Fatal(err)
		}
		if got := n.look(id).Meta.LogPath; got != test.want {
			t.Errorf("attempt %d: log path %q, want %q", attempt, got, test.want)
		}
	}
}

// Of many requests of one name one gets the container.
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
	if len(ids) != 1 {
		t.Errorf("%d requests got a container: %v", len(ids), ids)
	}
	if got := n.mirror.Snapshot().ContainersOf(pod); len(got) != 1 {
		t.Errorf("the pod has %d containers", len(got))
	}
}

// The engine made the container and its answer was lost.
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
			if _, err := n.Create(ctx, pod, n.config("sleep"), nil); err == nil {
				t.Fatal("Create succeeded")
			}
			n.create(pod, n.config("sleep"))
			if got := n.mirror.Snapshot().ContainersOf(pod); len(got) != 1 {
				t.Errorf("the pod has %d containers", len(got))
			}
		})
	}
}

// criadapter died between the engine's create and the checkpoint: the mirror
// shows the container from its labels, and the same request gets a new one.
func TestCreateRemovesWhatACrashLeft(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	id := n.create(pod, n.config("sleep"))
	n.restart(func() {
		if err := n.dropRecord(pod, id); err != nil {
			t.Fatal(err)
		}
	})
	n.wantState(id, runtimeapi.ContainerState_CONTAINER_CREATED)
	again := n.create(pod, n.config("sleep"))
	if again == id {
		t.Error("a container of which nobody knows what it was made from was given out")
	}
	if _, err := n.engine.InspectContainer(t.Context(), id); !errdefs.IsNotFound(err) {
		t.Errorf("the leftover is still there: %v", err)
	}
}

func TestCreateLeavesForeignContainersAlone(t *testing.T) {
	n, engine := newFakeNode(t)
	pod := n.pod()
	c := n.look(n.create(pod, n.config("sleep")))
	spec, err := n.prepare(t.Context(), mustPod(t, n, pod), n.config("sleep"))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Remove(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	spec.spec.Config.Labels = nil
	foreign, err := engine.CreateContainer(t.Context(), spec.spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Create(t.Context(), pod, n.config("sleep"), nil); !errdefs.IsAlreadyExists(err) {
		t.Errorf("Create: %v", err)
	}
	if _, err := engine.InspectContainer(t.Context(), foreign); err != nil {
		t.Errorf("somebody else's container: %v", err)
	}
}

func mustPod(t *testing.T, n *node, id string) *state.Pod {
	t.Helper()
	pod, err := n.mirror.Snapshot().Pod(id)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestCreateRollsBack(t *testing.T) {
	t.Run("the mirror cannot look at it", func(t *testing.T) {
		n, engine := newFakeNode(t)
		pod := n.pod()
		remove := engine.Inject("InspectContainer", dockertest.Fault{Err: errors.New("broken")})
		_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
		remove()
		if err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("Create: %v", err)
		}
		n.wantNothing(pod)
	})
	t.Run("the checkpoint cannot be written", func(t *testing.T) {
		n, _ := newFakeNode(t)
		pod := n.pod()
		folder := filepath.Join(n.dir, "checkpoint")
		if err := os.Rename(folder, folder+".away"); err != nil {
			t.Fatal(err)
		}
		_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
		if err == nil {
			t.Error("Create succeeded without a checkpoint")
		}
		if err := os.Rename(folder+".away", folder); err != nil {
			t.Fatal(err)
		}
		n.wantNothing(pod)
	})
	t.Run("the pod stops meanwhile", func(t *testing.T) {
		n, engine := newFakeNode(t)
		pod := n.pod()
		engine.Inject("CreateContainer", dockertest.Fault{Delay: 100 * time.Millisecond})
		time.AfterFunc(20*time.Millisecond, func() {
			n.mirror.UpdatePod(pod, func(s *state.PodStatus) { s.Stopping = true })
		})
		if _, err := n.Create(t.Context(), pod, n.config("sleep"), nil); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("Create: %v", err)
		}
		n.wantNothing(pod)
	})
}

func TestCreateWhileTheEngineIsAway(t *testing.T) {
	n, engine := newFakeNode(t)
	pod := n.pod()
	engine.Away()
	n.eventually(func() error {
		if n.mirror.Err() == nil {
			return errors.New("the mirror has not noticed that the engine is away")
		}
		return nil
	})
	if _, err := n.Create(t.Context(), pod, n.config("sleep"), nil); !errdefs.IsUnavailable(err) {
		t.Errorf("Create: %v", err)
	}
}

// A pod of another shim has no checkpoint; its containers live without one.
func TestCreateInAPodWithoutCheckpoint(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	if err := n.store.Delete(pod); err != nil {
		t.Fatal(err)
	}
	id := n.create(pod, n.config("sleep"))
	n.start(id)
	if _, err := n.store.Load(pod); !errdefs.IsNotFound(err) {
		t.Errorf("a checkpoint was made for a pod without one: %v", err)
	}
	if err := n.Remove(t.Context(), id); err != nil {
		t.Errorf("Remove: %v", err)
	}
}

func TestCheckSources(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := []translate.HostSource{{Field: "a", Path: dir}, {Field: "b", Path: file}}
	if err := checkSources(good); err != nil {
		t.Error(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), filepath.Join(file, "below")} {
		err := checkSources(append(good, translate.HostSource{Field: "config.mounts[2].host_path", Path: path}))
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "config.mounts[2].host_path") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
