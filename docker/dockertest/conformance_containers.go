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
	testutil.Assert(t, got.ID == id && got.Name == "/"+spec.Name && got.Config.Image == s.Image,
		"inspect: id %q name %q image %q", got.ID, got.Name, got.Config.Image)
	testutil.Assert(t, got.State.Status == api.StateCreated && !got.State.Running && got.State.Pid == 0,
		"a new container is %+v", got.State)
	testutil.Assert(t, got.Config.Labels["suite"] == s.Prefix && got.HostConfig.OomScoreAdj == 5,
		"the configuration did not arrive: %v, %d", got.Config.Labels, got.HostConfig.OomScoreAdj)
	byName := s.inspect(t, spec.Name)
	testutil.Assert(t, byName.ID == id, "inspect by name finds %s, not %s", byName.ID, id)
	image, err := s.Engine.InspectImage(withPatience(t), s.Image)
	testutil.Must(t, err)
	testutil.Assert(t, got.Image == image.ID, "the container's image is %s, not %s", got.Image, image.ID)

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

// testCreateNewer uses a field that came with API 1.43.
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

// testLogPath shows that engines report a log file for the driver json-file only.
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
	testutil.Assert(t, running.State.Running && running.State.Status == api.StateRunning && running.State.Pid > 0,
		"a started container is %+v", running.State)
	started := parseTime(t, running.State.StartedAt)
	testutil.Assert(t, !started.Before(before.Add(-time.Second)) && !started.After(time.Now().Add(time.Second)),
		"StartedAt is %s", started)
	testutil.Check(t, s.Engine.StartContainer(withPatience(t), id), "starting a running container")

	// The shell sets its trap after the start. Until then it ignores SIGTERM.
	s.exec(t, id, docker.ExecOptions{Command: []string{"sh", "-c", trappedCommand}, Stdout: true})
	testutil.Must(t, s.Engine.StopContainer(withPatience(t), id, 10*time.Second), "StopContainer")
	stopped := s.inspect(t, id).State
	testutil.Assert(t, !stopped.Running && stopped.Status == api.StateExited && stopped.Pid == 0 &&
		stopped.ExitCode == 7, "a stopped container is %+v", stopped)
	finished := parseTime(t, stopped.FinishedAt)
	testutil.Assert(t, !finished.Before(started), "FinishedAt %s is before StartedAt %s", finished, started)
	testutil.Check(t, s.Engine.StopContainer(withPatience(t), id, time.Second), "stopping a stopped container")

	testutil.Must(t, s.Engine.StartContainer(withPatience(t), id), "starting again")
	again := s.inspect(t, id).State
	testutil.Assert(t, again.Running && again.Pid != running.State.Pid && parseTime(t, again.StartedAt).After(started),
		"a container started again is %+v", again)
}

func parseTime(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, text)
	testutil.Must(t, err)
	return parsed
}

func testStopStubborn(t *testing.T, s *suite) {
	id := s.start(t, s.shell(stubbornCommand)) // the shell ignores SIGTERM before it sets its trap, too
	began := time.Now()
	// 600 ms are a second for the engine.
	testutil.Must(t, s.Engine.StopContainer(withPatience(t), id, 600*time.Millisecond), "StopContainer")
	took := time.Since(began)
	testutil.Assert(t, took >= 600*time.Millisecond, "stopped after %s, before the grace period was over", took)
	testutil.Equal(t, s.inspect(t, id).State.ExitCode, 137, "exit code")
	wantError(t, "stopping a missing container", s.Engine.StopContainer(withPatience(t), s.name(), time.Second),
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
	wantError(t, "killing a missing container", kill(s.name(), "SIGKILL"), errdefs.ErrNotFound)
	testutil.Must(t, s.Engine.StartContainer(withPatience(t), id))
	wantError(t, "an unknown signal", kill(id, "SIGNONSENSE"), errdefs.ErrInvalidArgument)
	testutil.Must(t, kill(id, "SIGKILL"), "KillContainer")
	testutil.Until(t, "the container exits", func() bool { return s.inspect(t, id).State.Status == api.StateExited })
	testutil.Equal(t, s.inspect(t, id).State.ExitCode, 137, "exit code")
	wantError(t, "killing an exited container", kill(id, "SIGKILL"), errdefs.ErrConflict)
}

func testStartFails(t *testing.T, s *suite) {
	spec := s.shell("")
	spec.Config.Entrypoint, spec.Config.Cmd = []string{missingProgram}, nil
	id := s.create(t, spec)
	wantError(t, "starting a missing program", s.Engine.StartContainer(withPatience(t), id), errdefs.ErrInvalidArgument)
	state := s.inspect(t, id).State
	testutil.Assert(t, state.Status == api.StateCreated && state.ExitCode == 127 && state.Error != "",
		"after a failed start the container is %+v", state)
	wantError(t, "starting a missing container", s.Engine.StartContainer(withPatience(t), s.name()),
		errdefs.ErrNotFound)
}

func testRemove(t *testing.T, s *suite) {
	spec := s.shell(longCommand)
	id := s.start(t, spec)
	testutil.Must(t, s.Engine.RemoveContainer(withPatience(t), id), "removing a running container")
	_, err := s.Engine.InspectContainer(withPatience(t), id)
	wantError(t, "inspecting a removed container", err, errdefs.ErrNotFound)
	wantError(t, "removing it again", s.Engine.RemoveContainer(withPatience(t), id), errdefs.ErrNotFound)
	testutil.Assert(t, s.create(t, spec) != id, "a new container has the id of a removed one")
}

func testRemoveConcurrently(t *testing.T, s *suite) {
	spec := s.shell(longCommand)
	id := s.start(t, spec)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			err := s.Engine.RemoveContainer(withPatience(t), id)
			testutil.Assert(t, err == nil || errdefs.IsNotFound(err), "RemoveContainer: %v", err)
			_, err = s.Engine.InspectContainer(withPatience(t), id)
			testutil.Fails(t, err, errdefs.IsNotFound, "the container is still there when a removal has returned")
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
	testutil.Must(t, update(id, api.Resources{CPUShares: 512}), "UpdateContainer")
	testutil.Must(t, update(id, api.Resources{CPUPeriod: 100_000, CPUQuota: 50_000}), "UpdateContainer")
	if got := s.inspect(t, id).HostConfig; got.CPUShares != 512 || got.CPUQuota != 50_000 {
		t.Errorf("after two updates the shares are %d and the quota is %d", got.CPUShares, got.CPUQuota)
	}
	wantError(t, "too little memory", update(id, api.Resources{Memory: 1}), errdefs.ErrInvalidArgument)
	wantError(t, "updating a missing container", update(s.name(), api.Resources{CPUShares: 2}), errdefs.ErrNotFound)
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
		testutil.Assert(t, slices.Equal(got, c.want), "list of %v: got %v, want %v", c.labels, got, c.want)
	}
	list, err := s.Engine.ListContainers(withPatience(t), map[string]string{label: "one"})
	testutil.Require(t, err == nil && len(list) == 1, "got %d containers, %v", len(list), err)
	got := list[0]
	testutil.Assert(t, got.State == api.StateRunning && got.Labels["other"] == "x" && len(got.Names) == 1 &&
		got.Created != 0 && got.ImageID != "", "the list says %+v", got)
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
	testutil.Assert(t, s.Engine.StartContainer(withPatience(t), member) != nil,
		"a container joins the namespaces of a container that does not run")
	for _, id := range []string{owner, member} {
		testutil.Must(t, s.Engine.StartContainer(withPatience(t), id))
	}
	testutil.Must(t, s.Engine.KillContainer(withPatience(t), owner, "SIGKILL"))
	testutil.Until(t, "the member ends with its PID namespace", func() bool {
		return s.inspect(t, member).State.Status == api.StateExited
	})
}
