package container

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// turns is an engine that calls a function before each inspect of a container, and before and after each attach.
type turns struct {
	docker.Engine
	beforeLook, beforeAttach, afterAttach turn
	// age, in nanoseconds, moves the start times in inspects into the past.
	age atomic.Int64
}

// turn has the function that the engine turns calls at one moment, or nil. It is atomic, because the cache inspects
// containers at any time.
type turn struct {
	do atomic.Pointer[func(id string)]
}

func (t *turn) is(do func(id string)) { t.do.Store(&do) }

func (t *turn) now(id string) {
	if do := t.do.Load(); do != nil {
		(*do)(id)
	}
}

func (e *turns) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	e.beforeLook.now(id)
	seen, err := e.Engine.InspectContainer(ctx, id)
	if err == nil && seen.State != nil {
		if started, err := time.Parse(time.RFC3339Nano, seen.State.StartedAt); err == nil && !started.IsZero() {
			seen.State.StartedAt = started.Add(-time.Duration(e.age.Load())).Format(time.RFC3339Nano)
		}
	}
	return seen, err
}

func (e *turns) AttachContainer(ctx context.Context, id string, opts docker.AttachOptions) (docker.Stream, error) {
	e.beforeAttach.now(id)
	stream, err := e.Engine.AttachContainer(ctx, id, opts)
	if err == nil {
		e.afterAttach.now(id)
	}
	return stream, err
}

// newTurningNode returns a node on the engine turns, and the id of a running container. The container has written a
// line to stdout and a line to stderr. end ends the container.
func newTurningNode(t *testing.T) (n *node, engine *turns, id string, end func(id string)) {
	t.Helper()
	_, memory := newFakeNode(t, dockertest.Program{Command: "short", Stdout: "written\n", Stderr: "warned\n"})
	engine = &turns{Engine: memory}
	n = newNode(t, engine, "busybox", "pause")
	return n, engine, n.running("short"), func(id string) { _ = memory.Exit(id, 0) } // fails for an ended container
}

// The container ends at each moment of an attach, and the session ends. Earlier output is not lost when the engine
// attaches too late or the client came right after the start. It is not repeated to a client that came later and was
// attached in time.
func TestAttachToAContainerThatEnds(t *testing.T) {
	for _, moment := range []string{"before the look", "before the attach", "after the attach",
		"after a later attach"} {
		for _, input := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, input=%t", moment, input), func(t *testing.T) {
				n, engine, id, end := newTurningNode(t)
				switch moment {
				case "before the look":
					engine.beforeLook.is(end)
				case "before the attach":
					engine.beforeAttach.is(end)
				case "after the attach":
					engine.afterAttach.is(end)
				case "after a later attach":
					n.ages(engine, id, 2*firstMoments)
					engine.afterAttach.is(end)
				}
				check := testutil.NoMoreGoroutines(t)
				stdout, stderr, err := n.attach(t.Context(), id, input)
				want := []string{"written\n", "warned\n"}
				if moment == "after a later attach" {
					want = []string{"", ""}
				}
				testutil.Assert(t, err == nil && stdout == want[0] && stderr == want[1],
					"got %q, %q, %v, want %q", stdout, stderr, err, want)
				check()
			})
		}
	}
}

// ages moves a container's start into the past, also in the cache.
func (n *node) ages(engine *turns, id string, by time.Duration) {
	n.t.Helper()
	engine.age.Store(int64(by))
	if _, err := n.cache.RefreshContainer(n.t.Context(), id); err != nil {
		n.t.Fatal(err)
	}
}

// attach attaches for longRun at most.
func (n *node) attach(ctx context.Context, id string, withInput bool) (out, err string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, longRun)
	defer cancel()
	var stdout, stderr testutil.Buffer
	streams := Streams{Stdout: &stdout, Stderr: &stderr}
	if withInput {
		input, typed := io.Pipe()
		defer typed.Close()
		streams.Stdin = input
	}
	attachErr := n.Attach(ctx, id, streams)
	return stdout.String(), stderr.String(), attachErr
}

// The output of a container that lived long is not replayed to a client. The CRI log has it.
func TestAttachDoesNotReplayALongLife(t *testing.T) {
	for _, gone := range []bool{true, false} {
		n, engine, id, end := newTurningNode(t)
		engine.age.Store(int64(time.Hour))
		if gone {
			engine.beforeLook.is(end)
		} else {
			engine.afterAttach.is(end)
		}
		stdout, stderr, err := n.attach(t.Context(), id, false)
		testutil.Assert(t, stdout+stderr == "" && errdefs.IsFailedPrecondition(err) == gone && (err == nil || gone),
			"gone=%t: got %q, %q, %v", gone, stdout, stderr, err)
	}
}

// A container that wrote nothing may be removed before Attach sees its end. The session then ends without an error.
func TestAttachToASilentContainerThatIsRemoved(t *testing.T) {
	for name, toldOfEnd := range map[string]bool{"at once": false, "after its end": true} {
		t.Run(name, func(t *testing.T) {
			n, engine, id, end := newTurningNode(t)
			engine.age.Store(int64(time.Hour))
			engine.afterAttach.is(func(id string) {
				if toldOfEnd {
					end(id)
				}
				testutil.Check(t, engine.RemoveContainer(t.Context(), id))
			})
			stdout, stderr, err := n.attach(t.Context(), id, false)
			testutil.Assert(t, stdout+stderr == "" && err == nil, "got %q, %q, %v", stdout, stderr, err)
		})
	}
}

// inSession marks the context of a session.
type inSession struct{}

// slowSession is an engine on which the inspects of a session take a while. ended counts them. late says that one of
// them has ended after over was set.
type slowSession struct {
	docker.Engine
	over, late atomic.Bool
	ended      atomic.Int32
}

func (e *slowSession) InspectContainer(ctx context.Context, id string) (*container.InspectResponse, error) {
	if ctx.Value(inSession{}) != nil {
		defer func() {
			time.Sleep(50 * time.Millisecond)
			e.late.Store(e.late.Load() || e.over.Load())
			e.ended.Add(1)
		}()
	}
	return e.Engine.InspectContainer(ctx, id)
}

// An inspect of a session may run the exit hook, which writes the container's record. It ends before Attach returns.
func TestAttachLeavesNoInspect(t *testing.T) {
	_, memory := newFakeNode(t)
	old := &turns{Engine: memory}
	old.age.Store(int64(time.Hour)) // output of a long life is not replayed, so Attach makes no later inspect
	engine := &slowSession{Engine: old}
	n := newNode(t, engine, "busybox", "pause")
	id := n.running("sleep")
	input, typed := io.Pipe()
	_ = typed.Close()
	testutil.Check(t, n.Attach(context.WithValue(t.Context(), inSession{}, true), id, Streams{Stdin: input}))
	engine.over.Store(true)
	testutil.Until(t, "both inspects of the session have ended", func() bool { return engine.ended.Load() >= 2 })
	testutil.Assert(t, !engine.late.Load(), "an inspect of the session ended after Attach")
}

// A container that is removed while it runs ends with the engine's event. If a label hides the event's exit code, the
// container's running time is unknown.
func TestLifeOfARemovedContainer(t *testing.T) {
	for label, known := range map[string]bool{"app": true, "exitCode": false} {
		n, engine, _, _ := newTurningNode(t)
		config := n.config("short")
		config.Labels = map[string]string{label: "0"}
		id := n.started(n.pod(), config)
		lived := n.life(t.Context(), n.look(id))
		testutil.Must(t, engine.RemoveContainer(t.Context(), id))
		got := <-lived
		testutil.Assert(t, (got < shortLife) == known, "with the label %s it lived %v", label, got)
	}
}

// A client that detaches from a running container gets no earlier output.
func TestAttachDoesNotReplayARunningContainer(t *testing.T) {
	n, _, id, _ := newTurningNode(t)
	var stdout testutil.Buffer
	input, typed := io.Pipe()
	_ = typed.Close()
	err := n.Attach(t.Context(), id, Streams{Stdin: input, Stdout: &stdout})
	testutil.Assert(t, err == nil && stdout.String() == "", "got %q, %v", &stdout, err)
}

// muted is an engine whose attached clients get the end of the output at once.
type muted struct{ docker.Engine }

type noOutput struct{ docker.Stream }

func (noOutput) Read([]byte) (int, error) { return 0, io.EOF }

func (e muted) AttachContainer(ctx context.Context, id string, opts docker.AttachOptions) (docker.Stream, error) {
	stream, err := e.Engine.AttachContainer(ctx, id, opts)
	return noOutput{stream}, err
}

// The engine ends the output of a container before it shows the container's end. A client that came right after the
// start gets the output all the same.
func TestAttachWhoseOutputEndsBeforeTheContainer(t *testing.T) {
	_, memory := newFakeNode(t, dockertest.Program{Command: "short", Stdout: "written\n"})
	engine := &turns{Engine: muted{memory}}
	n := newNode(t, engine, "busybox", "pause")
	id := n.running("short")
	engine.afterAttach.is(func(id string) {
		time.AfterFunc(50*time.Millisecond, func() { _ = memory.Exit(id, 0) })
	})
	stdout, _, err := n.attach(t.Context(), id, false)
	testutil.Assert(t, err == nil && stdout == "written\n", "got %q, %v", stdout, err)
}

// A client that asked for no output gets none. Attach does not ask the engine for a log without streams, because the
// engine refuses such a request.
func TestAttachWithInputAlone(t *testing.T) {
	n, engine, id, end := newTurningNode(t)
	engine.afterAttach.is(end)
	engine.Engine.(*dockertest.Engine).Inject("ContainerLogs", dockertest.Fault{Err: errdefs.ErrInvalidArgument})
	input, typed := io.Pipe()
	defer typed.Close()
	testutil.Check(t, n.Attach(t.Context(), id, Streams{Stdin: input}))
}

func TestCheckRunning(t *testing.T) {
	n, engine, id, end := newTurningNode(t)
	testutil.Check(t, n.CheckRunning(t.Context(), id))
	engine.beforeLook.is(end) // the cache does not know of the end yet
	testutil.Fails(t, n.CheckRunning(t.Context(), id), errdefs.IsFailedPrecondition, "a container that has just ended")
}
