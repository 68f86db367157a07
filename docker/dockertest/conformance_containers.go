package dockertest

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/internal/testutil"
)

func testCreate(t *testing.T, s *suite) {
	spec := s.shell(longCommand)
	spec.Config.Labels = map[string]string{"suite": s.Prefix}
	spec.Host.OomScoreAdj = 5
	id := s.create(t, spec)

	got := s.inspect(t, id)
	if got.ID != id || got.Name != "/"+spec.Name || got.Config.Image != s.Image {
		t.Errorf("inspect: id %q name %q image %q", got.ID, got.Name, got.Config.Image)
	}
	if got.State.Status != api.StateCreated || got.State.Running || got.State.Pid != 0 {
		t.Errorf("a new container is %+v", got.State)
	}
	if got.Config.Labels["suite"] != s.Prefix || got.HostConfig.OomScoreAdj != 5 {
		t.Errorf("the configuration did not arrive: %v, %d", got.Config.Labels, got.HostConfig.OomScoreAdj)
	}
	if byName := s.inspect(t, spec.Name); byName.ID != id {
		t.Errorf("inspect by name finds %s, not %s", byName.ID, id)
	}
	image, err := s.Engine.InspectImage(withPatience(t), s.Image)
	testutil.Must(t, err)
	if got.Image != image.ID {
		t.Errorf("the container's image is %s, not %s", got.Image, image.ID)
	}

	err = s.Engine.Adjust(withPatience(t), id, ocinote.Adjustment{})
	wantError(t, "an adjustment of a container without a note", err, errdefs.ErrNotImplemented)
	adjusted, err := s.Engine.Adjustment(withPatience(t), id)
	testutil.Assert(t, err == nil && adjusted == nil, "a container without a note is adjusted: %v, %v", adjusted, err)
	_, err = s.Engine.CreateContainer(withPatience(t), spec)
	wantError(t, "a name in use", err, errdefs.ErrConflict)
	spec = s.shell(longCommand)
	spec.Config.Image = s.Prefix + "-no-such-image"
	_, err = s.Engine.CreateContainer(withPatience(t), spec)
	wantError(t, "a missing image", err, errdefs.ErrNotFound)
	spec = s.shell(longCommand)
	spec.Name = "a bad name"
	_, err = s.Engine.CreateContainer(withPatience(t), spec)
	wantError(t, "a bad name", err, errdefs.ErrInvalidArgument)
	spec = s.shell(longCommand)
	spec.Host.Runtime = "no-such-runtime"
	_, err = s.Engine.CreateContainer(withPatience(t), spec)
	wantError(t, "an unknown runtime", err, errdefs.ErrInvalidArgument)
	testCreateNewer(t, s)
}

// testCreateNewer asks for what came with API 1.43.
func testCreateNewer(t *testing.T, s *suite) {
	features, err := s.Engine.Features(withPatience(t))
	testutil.Must(t, err)
	spec := s.shell(longCommand)
	spec.Host.Annotations = map[string]string{"key": "value"}
	if features.Supports("1.43") {
		s.create(t, spec)
		return
	}
	_, err = s.Engine.CreateContainer(withPatience(t), spec)
	wantError(t, "a field that the engine does not know", err, errdefs.ErrNotImplemented)
	_, err = s.Engine.InspectContainer(withPatience(t), spec.Name)
	wantError(t, "the container with that field", err, errdefs.ErrNotFound)
}

// testLogPath shows that engines tell the log files of the driver json-file and
// of no other.
func testLogPath(t *testing.T, s *suite) {
	for driver, ending := range map[string]string{"json-file": "-json.log", "local": "", "none": ""} {
		spec := s.shell(longCommand)
		spec.Host.LogConfig.Type = driver
		id := s.start(t, spec)
		want := ending
		if ending != "" {
			want = id + ending
		}
		if got := s.inspect(t, id).LogPath; filepath.Base("/"+got) != filepath.Base("/"+want) {
			t.Errorf("the log of the driver %s is at %q, want %q", driver, got, want)
		}
	}
}

func testLifecycle(t *testing.T, s *suite) {
	before := time.Now()
	id := s.start(t, s.shell(obedientCommand))
	running := s.inspect(t, id)
	if !running.State.Running || running.State.Status != api.StateRunning || running.State.Pid <= 0 {
		t.Errorf("a started container is %+v", running.State)
	}
	started := parseTime(t, running.State.StartedAt)
	if started.Before(before.Add(-time.Second)) || started.After(time.Now().Add(time.Second)) {
		t.Errorf("StartedAt is %s", started)
	}
	if err := s.Engine.StartContainer(withPatience(t), id); err != nil {
		t.Errorf("starting a running container: %v", err)
	}

	// The shell sets its trap after the start; until then it ignores SIGTERM.
	s.exec(t, id, docker.ExecOptions{Command: []string{"sh", "-c", trappedCommand}, Stdout: true})
	if err := s.Engine.StopContainer(withPatience(t), id, 10*time.Second); err != nil {
		t.Fatalf("StopContainer: %v", err)
	}
	stopped := s.inspect(t, id).State
	if stopped.Running || stopped.Status != api.StateExited || stopped.Pid != 0 || stopped.ExitCode != 7 {
		t.Errorf("a stopped container is %+v", stopped)
	}
	if finished := parseTime(t, stopped.FinishedAt); finished.Before(started) {
		t.Errorf("FinishedAt %s is before StartedAt %s", finished, started)
	}
	if err := s.Engine.StopContainer(withPatience(t), id, time.Second); err != nil {
		t.Errorf("stopping a stopped container: %v", err)
	}

	if err := s.Engine.StartContainer(withPatience(t), id); err != nil {
		t.Fatalf("starting again: %v", err)
	}
	again := s.inspect(t, id).State
	if !again.Running || again.Pid == running.State.Pid || !parseTime(t, again.StartedAt).After(started) {
		t.Errorf("a container started again is %+v", again)
	}
}

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, text)
	testutil.Must(t, err)
	return parsed
}

func testStopStubborn(t *testing.T, s *suite) {
	id := s.start(t, s.shell(stubbornCommand)) // before its trap, too, it ignores SIGTERM
	began := time.Now()
	// 600 ms are a second for the engine.
	if err := s.Engine.StopContainer(withPatience(t), id, 600*time.Millisecond); err != nil {
		t.Fatalf("StopContainer: %v", err)
	}
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("stopped after %s, before the grace period was over", took)
	}
	if code := s.inspect(t, id).State.ExitCode; code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	wantError(t, "stopping what is not there", s.Engine.StopContainer(withPatience(t), s.name(), time.Second),
		errdefs.ErrNotFound)
}

func testStopAbandoned(t *testing.T, s *suite) {
	id := s.start(t, s.shell(stubbornCommand))
	ctx, cancel := context.WithTimeout(withPatience(t), 200*time.Millisecond)
	defer cancel()
	wantError(t, "StopContainer", s.Engine.StopContainer(ctx, id, time.Second), context.DeadlineExceeded)
	testutil.Until(t, "the container exits", func() bool { return s.inspect(t, id).State.Status == api.StateExited })
}

func testKill(t *testing.T, s *suite) {
	id := s.create(t, s.shell(longCommand))
	kill := func(id, signal string) error { return s.Engine.KillContainer(withPatience(t), id, signal) }
	wantError(t, "killing a new container", kill(id, "SIGKILL"), errdefs.ErrConflict)
	wantError(t, "killing what is not there", kill(s.name(), "SIGKILL"), errdefs.ErrNotFound)
	testutil.Must(t, s.Engine.StartContainer(withPatience(t), id))
	wantError(t, "an unknown signal", kill(id, "SIGNONSENSE"), errdefs.ErrInvalidArgument)
	if err := kill(id, "SIGKILL"); err != nil {
		t.Fatalf("KillContainer: %v", err)
	}
	testutil.Until(t, "the container exits", func() bool { return s.inspect(t, id).State.Status == api.StateExited })
	if code := s.inspect(t, id).State.ExitCode; code != 137 {
		t.Errorf("exit code %d, want 137", code)
	}
	wantError(t, "killing an exited container", kill(id, "SIGKILL"), errdefs.ErrConflict)
}

func testStartFails(t *testing.T, s *suite) {
	spec := s.shell("")
	spec.Config.Entrypoint, spec.Config.Cmd = []string{missingProgram}, nil
	id := s.create(t, spec)
	wantError(t, "starting a missing program", s.Engine.StartContainer(withPatience(t), id), errdefs.ErrInvalidArgument)
	state := s.inspect(t, id).State
	if state.Status != api.StateCreated || state.ExitCode != 127 || state.Error == "" {
		t.Errorf("after a failed start the container is %+v", state)
	}
	wantError(t, "starting what is not there", s.Engine.StartContainer(withPatience(t), s.name()), errdefs.ErrNotFound)
}

func testRemove(t *testing.T, s *suite) {
	spec := s.shell(longCommand)
	id := s.start(t, spec)
	if err := s.Engine.RemoveContainer(withPatience(t), id); err != nil {
		t.Fatalf("removing a running container: %v", err)
	}
	_, err := s.Engine.InspectContainer(withPatience(t), id)
	wantError(t, "inspecting a removed container", err, errdefs.ErrNotFound)
	wantError(t, "removing it again", s.Engine.RemoveContainer(withPatience(t), id), errdefs.ErrNotFound)
	if again := s.create(t, spec); again == id {
		t.Error("a new container has the id of a removed one")
	}
}

func testRemoveConcurrently(t *testing.T, s *suite) {
	spec := s.shell(longCommand)
	id := s.start(t, spec)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			if err := s.Engine.RemoveContainer(withPatience(t), id); err != nil && !errdefs.IsNotFound(err) {
				t.Errorf("RemoveContainer: %v", err)
			}
			if _, err := s.Engine.InspectContainer(withPatience(t), id); !errdefs.IsNotFound(err) {
				t.Errorf("the container is still there when a removal has returned: %v", err)
			}
		})
	}
	group.Wait()
	s.create(t, spec)
}

func testUpdate(t *testing.T, s *suite) {
	if s.Needs != nil {
		s.Needs(t, "cpu", "memory")
	}
	id := s.start(t, s.shell(longCommand))
	update := func(id string, r api.Resources) error { return s.Engine.UpdateContainer(withPatience(t), id, r) }
	if err := update(id, api.Resources{CPUShares: 512}); err != nil {
		t.Fatalf("UpdateContainer: %v", err)
	}
	if err := update(id, api.Resources{CPUPeriod: 100_000, CPUQuota: 50_000}); err != nil {
		t.Fatalf("UpdateContainer: %v", err)
	}
	if got := s.inspect(t, id).HostConfig; got.CPUShares != 512 || got.CPUQuota != 50_000 {
		t.Errorf("after two updates the shares are %d and the quota is %d", got.CPUShares, got.CPUQuota)
	}
	wantError(t, "too little memory", update(id, api.Resources{Memory: 1}), errdefs.ErrInvalidArgument)
	wantError(t, "updating what is not there", update(s.name(), api.Resources{CPUShares: 2}), errdefs.ErrNotFound)
}

func testList(t *testing.T, s *suite) {
	label := s.name()
	spec := s.shell(longCommand)
	spec.Config.Labels = map[string]string{label: "one", "other": "x"}
	first := s.start(t, spec)
	spec = s.shell(longCommand)
	spec.Config.Labels = map[string]string{label: "two"}
	second := s.create(t, spec)

	for _, c := range []struct {
		labels map[string]string
		want   []string
	}{
		{map[string]string{label: ""}, []string{first, second}},
		{map[string]string{label: "two"}, []string{second}},
		{map[string]string{label: "", "other": "x"}, []string{first}},
		{map[string]string{label: "three"}, nil},
	} {
		list, err := s.Engine.ListContainers(withPatience(t), c.labels)
		testutil.Must(t, err)
		var got []string
		for _, summary := range list {
			got = append(got, summary.ID)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("list of %v: got %v, want %v", c.labels, got, c.want)
		}
	}
	list, err := s.Engine.ListContainers(withPatience(t), map[string]string{label: "one"})
	if err != nil || len(list) != 1 {
		t.Fatalf("got %d containers, %v", len(list), err)
	}
	got := list[0]
	if got.State != api.StateRunning || got.Labels["other"] != "x" || len(got.Names) != 1 || got.Created == 0 ||
		got.ImageID == "" {
		t.Errorf("the list says %+v", got)
	}
}

func testJoinedNamespaces(t *testing.T, s *suite) {
	owner := s.create(t, s.shell(longCommand))
	spec := s.shell(longCommand)
	spec.Config.NetworkDisabled = false
	spec.Host = &api.HostConfig{
		NetworkMode: api.NetworkMode("container:" + owner),
		IpcMode:     api.IpcMode("container:" + owner),
		PidMode:     api.PidMode("container:" + owner),
	}
	member := s.create(t, spec)
	if err := s.Engine.StartContainer(withPatience(t), member); err == nil {
		t.Error("a container starts in the namespaces of one that does not run")
	}
	for _, id := range []string{owner, member} {
		testutil.Must(t, s.Engine.StartContainer(withPatience(t), id))
	}
	testutil.Must(t, s.Engine.KillContainer(withPatience(t), owner, "SIGKILL"))
	testutil.Until(t, "the member ends with its PID namespace", func() bool {
		return s.inspect(t, member).State.Status == api.StateExited
	})
}
