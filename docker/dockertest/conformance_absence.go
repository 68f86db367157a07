package dockertest

import (
	"testing"
	"time"

	"github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
)

// ConformanceAbsence checks the promises of docker.Engine for an engine with LiveRestore that is killed and started
// again. away kills the engine, and back starts it. kill kills a container's process meanwhile, and returns when the
// process has ended.
func ConformanceAbsence(t *testing.T, subject Subject, away func(), kill func(pid int), back func()) {
	s := &suite{Subject: subject}
	began := time.Now()
	long := s.start(t, s.shell(longCommand))
	pid := s.inspect(t, long).State.Pid

	broken, subscribed := make(chan error, 1), make(chan struct{})
	go func() {
		broken <- s.Engine.Events(withPatience(t), docker.EventsOptions{
			Subscribed: func() { close(subscribed) }, Handle: func(docker.Event) {},
		})
	}()
	<-subscribed
	brief := s.start(t, s.shell(longCommand))
	briefPID := s.inspect(t, brief).State.Pid
	away()
	wantError(t, "the event stream", <-broken, errdefs.ErrUnavailable)
	s.wantUnavailable(t, long)
	kill(briefPID)
	back()

	testutil.Until(t, "the engine answers", func() bool { return s.Engine.Ping(withPatience(t)) == nil })
	if state := s.inspect(t, long).State; !state.Running || state.Pid != pid {
		t.Errorf("the container that goes on is %+v, its pid was %d", state, pid)
	}
	testutil.Until(t, "the engine knows of the exit", func() bool {
		return s.inspect(t, brief).State.Status == api.StateExited
	})
	w := s.watch(t, began)
	testutil.Check(t, s.Engine.StopContainer(withPatience(t), long, 0), "StopContainer")
	testutil.Until(t, "the next event comes", func() bool { return len(w.kinds(long)) > 0 })
	got := w.kinds(brief)
	testutil.Assert(t, len(got) == 0, "an event reports an exit in the engine's absence: %v", got)
	got = w.kinds(long)
	testutil.Assert(t, got[0] == docker.ContainerDied, "events from before the absence are reported: %v", got)
}

// wantUnavailable checks that every kind of call reports that the engine is away.
func (s *suite) wantUnavailable(t *testing.T, id string) {
	t.Helper()
	ctx := withPatience(t)
	_, featuresErr := s.Engine.Features(ctx)
	_, listErr := s.Engine.ListContainers(ctx, nil)
	_, createErr := s.Engine.CreateContainer(ctx, s.shell(longCommand))
	_, inspectErr := s.Engine.InspectContainer(ctx, id)
	_, execErr := s.Engine.CreateExec(ctx, id, docker.ExecOptions{Command: []string{"true"}})
	for call, err := range map[string]error{
		"Features": featuresErr, "ListContainers": listErr, "CreateContainer": createErr,
		"InspectContainer": inspectErr, "CreateExec": execErr,
		"Ping":          s.Engine.Ping(ctx),
		"StopContainer": s.Engine.StopContainer(ctx, id, 0),
		"PullImage":     s.Engine.PullImage(ctx, s.Pullable, docker.PullOptions{}),
		"Events":        s.Engine.Events(ctx, docker.EventsOptions{Handle: func(docker.Event) {}}),
	} {
		wantError(t, call+" while the engine is away", err, errdefs.ErrUnavailable)
	}
}
