package container

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/state"
)

const (
	created = runtimeapi.ContainerState_CONTAINER_CREATED
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
	unknown = runtimeapi.ContainerState_CONTAINER_UNKNOWN
)

func TestStart(t *testing.T) {
	n, _ := newFakeNode(t)
	id := n.running("sleep")
	n.wantState(id, running)
	c := n.look(id)
	testutil.Assert(t, c.Status.PID != 0 && !c.Status.StartedAt.IsZero(),
		"a running container has pid %d, started at %v", c.Status.PID, c.Status.StartedAt)
	n.refusesStart(id)
	testutil.Fails(t, n.Start(t.Context(), "feedbeef"), errdefs.IsNotFound, "Start of an unknown id")
	testutil.Fails(t, n.Start(t.Context(), ""), errdefs.IsInvalidArgument, "Start without an id")
}

// refusesStart checks that a container cannot be started in its state.
func (n *node) refusesStart(id string) {
	n.t.Helper()
	if err := n.Start(n.t.Context(), id); !errdefs.IsFailedPrecondition(err) {
		n.t.Errorf("Start of a container that is %s: %v", stateName(n.look(id)), err)
	}
}

func TestStartOfAnEndedContainer(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.running("sleep")
	n.exit(engine, id, 3)
	n.refusesStart(id)
}

func TestStartThatCannotRun(t *testing.T) {
	const text = `exec: "nosuch": executable file not found in $PATH`
	n, _ := newFakeNode(t, dockertest.Program{Command: "nosuch", Start: errors.New(text)})
	id := n.create(n.pod(), n.config("nosuch"))
	err := n.Start(t.Context(), id)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), text), "Start: %v, want the engine's text", err)
	n.wantState(id, exited)
	c := n.look(id)
	if c.Status.ExitCode != 127 || !strings.Contains(c.Status.Error, text) || c.Status.FinishedAt.IsZero() {
		t.Errorf("the container ended at %v with %d: %q", c.Status.FinishedAt, c.Status.ExitCode, c.Status.Error)
	}
	testutil.Check(t, n.Remove(t.Context(), id), "Remove")
}

// The engine refuses a start, but does not record the failure in the container's state.
func TestStartThatTheEngineDoesNotRemember(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	engine.Inject("StartContainer", dockertest.Fault{Err: errdefs.ErrInternal.WithMessage("no room for it"), Times: 1})
	testutil.Fails(t, n.Start(t.Context(), id), errdefs.IsInternal, "Start")
	n.wantState(id, exited)
	c := n.look(id)
	testutil.Assert(t, c.Status.ExitCode == cannotRunExitCode && strings.Contains(c.Status.Error, "no room for it"),
		"the container ended with %d: %q", c.Status.ExitCode, c.Status.Error)
	testutil.Assert(t, c.Status.StartedAt.Equal(c.Status.FinishedAt),
		"a container that never ran started at %v and ended at %v", c.Status.StartedAt, c.Status.FinishedAt)
}

// Another program removes the container during its start.
func TestStartOfAContainerThatIsGone(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	engine.Inject("StartContainer", dockertest.Fault{Err: errdefs.ErrInternal.WithMessage("no room for it"), Times: 1})
	engine.Inject("InspectContainer", dockertest.Fault{Err: errdefs.ErrNotFound})
	err := n.Start(t.Context(), id)
	testutil.Assert(t, errdefs.IsInternal(err) && !strings.Contains(err.Error(), "%!"), "Start: %v", err)
}

// Start fails without an answer. The cache then shows whether the engine started the container.
func TestStartWithALostAnswer(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	engine.Inject("StartContainer", dockertest.Fault{AfterEffect: true, Times: 1})
	testutil.Fails(t, n.Start(t.Context(), id), errdefs.IsUnavailable, "Start")
	n.waitState(id, running)

	id = n.create(n.pod(), n.config("sleep"))
	engine.Inject("StartContainer", dockertest.Fault{Times: 1})
	testutil.Fails(t, n.Start(t.Context(), id), errdefs.IsUnavailable, "Start")
	n.wantState(id, created)
	n.start(id)
	n.wantState(id, running)
}

func TestStartInAStoppedPod(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.createdInPod()
	n.cache.UpdatePod(pod, func(s *state.PodStatus) { s.Stopping = true })
	n.refusesStart(id)
	n.wantState(id, created)
}

func TestStartOfAProgramThatEndsAtOnce(t *testing.T) {
	n, _ := newFakeNode(t, dockertest.Program{Command: "true", Exits: true})
	id := n.running("true")
	n.waitState(id, exited)
}

func TestStop(t *testing.T) {
	n, _ := newFakeNode(t,
		dockertest.Program{Command: "polite", Handles: map[string]int{"SIGTERM": 0}},
		dockertest.Program{Command: "deaf", Ignores: []string{"SIGTERM"}},
	)
	for command, want := range map[string]int{"polite": 0, "deaf": 137} {
		id := n.running(command)
		start := time.Now()
		testutil.Must(t, n.Stop(t.Context(), id, 10*time.Millisecond), "Stop")
		n.wantState(id, exited)
		c := n.look(id)
		testutil.Assert(t, c.Status.ExitCode == want && !c.Status.FinishedAt.IsZero(),
			"%s ended at %v with %d, want %d", command, c.Status.FinishedAt, c.Status.ExitCode, want)
		took := time.Since(start)
		testutil.Assert(t, took <= longRun, "%s took %v to stop", command, took)
		testutil.Check(t, n.Stop(t.Context(), id, time.Second), "Stop of an ended container")
	}
}

func TestStopIsIdempotent(t *testing.T) {
	n, engine := newFakeNode(t)
	testutil.Check(t, n.Stop(t.Context(), "feedbeef", 0), "Stop of an unknown id")
	id := n.create(n.pod(), n.config("sleep"))
	testutil.Check(t, n.Stop(t.Context(), id, 0), "Stop of a created container")
	n.start(id)
	if err := engine.RemoveContainer(t.Context(), id); err != nil { // behind our back
		t.Fatal(err)
	}
	testutil.Check(t, n.Stop(t.Context(), id, 0), "Stop of a removed container")
}

// While the engine is away, Stop and Remove fail even for an id that the cache does not have: the container may exist.
func TestStopAndRemoveWithoutTheEngine(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.running("sleep")
	n.engineAway(engine)
	for _, id := range []string{id, "feedbeef"} {
		testutil.Fails(t, n.Stop(t.Context(), id, 0), errdefs.IsUnavailable, "Stop %s", id)
		testutil.Fails(t, n.Remove(t.Context(), id), errdefs.IsUnavailable, "Remove %s", id)
	}
}

// A caller that gives up does not keep the engine from stopping the container. A later, shorter grace period does not
// wait for the first one.
func TestStopTwiceWithDifferentGrace(t *testing.T) {
	n, _ := newFakeNode(t, dockertest.Program{Command: "deaf", Ignores: []string{"SIGTERM"}})
	id := n.running("deaf")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	testutil.FailsWith(t, n.Stop(ctx, id, time.Hour), context.DeadlineExceeded, "Stop")
	n.wantState(id, running)
	var group sync.WaitGroup
	group.Go(func() {
		testutil.Check(t, n.Stop(t.Context(), id, time.Hour), "long Stop")
	})
	time.Sleep(20 * time.Millisecond)
	testutil.Check(t, n.Stop(t.Context(), id, 0), "short Stop")
	group.Wait()
	n.wantState(id, exited)
}

// A Stop during a Start waits for the start and then stops the container.
func TestStopDuringStart(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	engine.Inject("StartContainer", dockertest.Fault{Delay: 100 * time.Millisecond})
	before := engine.Calls("StartContainer")
	var group sync.WaitGroup
	group.Go(func() { n.start(id) })
	testutil.Until(t, "the start begins", func() bool { return engine.Calls("StartContainer") > before })
	testutil.Check(t, n.Stop(t.Context(), id, 0), "Stop")
	group.Wait()
	n.wantState(id, exited)
}

func TestRemove(t *testing.T) {
	for _, state := range []runtimeapi.ContainerState{created, running, exited} {
		t.Run(state.String(), func(t *testing.T) {
			n, engine := newFakeNode(t)
			pod, id := n.createdInPod()
			if state != created {
				n.start(id)
			}
			if state == exited {
				testutil.Must(t, engine.Exit(id, 0))
			}
			n.waitState(id, state)
			testutil.Must(t, n.Remove(t.Context(), id), "Remove")
			n.gone(pod, id)
			testutil.Check(t, n.Remove(t.Context(), id), "second Remove")
		})
	}
}

// The checkpoint of a pod that is being removed goes as a whole, so it is not written for each container. If the
// removal of the pod fails, the records of removed containers go.
func TestRemoveFromAPodThatLeaves(t *testing.T) {
	n, _ := newFakeNode(t)
	n.watch()
	pod, id := n.runningInPod()
	records := func() int {
		record, err := n.store.Load(t.Context(), pod)
		testutil.Must(t, err)
		return len(record.Containers)
	}
	known, err := n.cache.Snapshot().Pod(pod)
	testutil.Must(t, err)
	done := n.LeavePod(known)
	testutil.Must(t, n.Remove(t.Context(), id))
	_, err = n.cache.Snapshot().Container(id)
	testutil.Assert(t, err != nil, "the removed container is still shown")
	time.Sleep(50 * time.Millisecond) // time in which Watch could drop the record
	testutil.Equal(t, records(), 1, "records while the pod leaves")
	done(false)
	testutil.Until(t, "the record is dropped", func() bool { return records() == 0 })
}

func TestRemoveAtTheSameTime(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.runningInPod()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			testutil.Check(t, n.Remove(t.Context(), id), "Remove")
		})
	}
	group.Wait()
	n.gone(pod, id)
}

// A Remove does not wait for the grace period of a Stop.
func TestRemoveDuringStop(t *testing.T) {
	n, _ := newFakeNode(t, dockertest.Program{Command: "deaf", Ignores: []string{"SIGTERM"}})
	pod := n.pod()
	id := n.started(pod, n.config("deaf"))
	var group sync.WaitGroup
	group.Go(func() {
		testutil.Check(t, n.Stop(t.Context(), id, time.Hour), "Stop")
	})
	time.Sleep(20 * time.Millisecond)
	testutil.Check(t, n.Remove(t.Context(), id), "Remove")
	group.Wait()
	n.gone(pod, id)
}

// A Remove that failed halfway is completed by the next call.
func TestRemoveAgainAfterAFailure(t *testing.T) {
	n, engine := newFakeNode(t)
	pod, id := n.runningInPod()
	for _, call := range []string{"StopContainer", "RemoveContainer"} {
		engine.Inject(call, dockertest.Fault{Times: 1})
		testutil.Fails(t, n.Remove(t.Context(), id), errdefs.IsUnavailable, "Remove while %s fails", call)
		n.look(id) // still visible
	}
	testutil.Check(t, n.Remove(t.Context(), id), "Remove")
	n.gone(pod, id)
}

func TestIDPrefixes(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.createdInPod()
	n.start(id[:16])
	n.wantState(id, running)
	testutil.Check(t, n.Stop(t.Context(), id[:16], 0))
	testutil.Check(t, n.Remove(t.Context(), id[:16]))
	n.gone(pod, id)
}

// TestUnknownState: a container in the CRI's state UNKNOWN cannot be started, but it can be stopped and removed.
func TestUnknownState(t *testing.T) {
	n, _ := newFakeNode(t)
	pod, id := n.runningInPod()
	n.cache.UpdateContainer(id, func(s *state.ContainerStatus) { s.Unknown = true })
	n.wantState(id, unknown)
	n.refusesStart(id)
	testutil.Check(t, n.Stop(t.Context(), id, 0), "Stop")
	n.cache.UpdateContainer(id, func(s *state.ContainerStatus) { s.Unknown = true })
	testutil.Check(t, n.Remove(t.Context(), id), "Remove")
	n.gone(pod, id)
}
