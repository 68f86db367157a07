package container

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// stopCounter counts the containers that the engine is asked to stop.
type stopCounter struct {
	docker.Engine
	stops atomic.Int32
}

func (e *stopCounter) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	e.stops.Add(1)
	return e.Engine.StopContainer(ctx, id, grace)
}

// countSignals prints each signal that it gets, and exits with 7 a quarter of a second after the first.
const countSignals = `for s in TERM QUIT; do trap "echo $s; end=1" $s; done; echo up
while [ -z "$end" ]; do sleep 0.05; done; sleep 0.1; sleep 0.1; sleep 0.05; exit 7`

// A container gets its own stop signal once, and the engine has nothing to do.
func TestRigStopSignals(t *testing.T) {
	n := newRigNode(t)
	engine := &stopCounter{Engine: n.opts.Engine}
	n.opts.Engine = engine
	for signal, want := range map[runtimeapi.Signal]string{
		runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT: "TERM", runtimeapi.Signal_SIGNAL_SIGQUIT: "QUIT",
	} {
		config := n.config("sh", "-c", countSignals)
		config.LogPath, config.StopSignal = want+"/0.log", signal
		id := n.started(n.pod(), config)
		n.isUp(id)
		testutil.Must(t, n.Stop(t.Context(), id, longRun))
		n.wantState(id, exited)
		c := n.look(id)
		testutil.Equal(t, c.Status.ExitCode, 7, "%s: the exit code", want)
		n.wantLog(c.Meta.LogPath, []string{"up", want})
	}
	id := n.shell(countSignals)
	n.isUp(id)
	testutil.Must(t, n.Stop(t.Context(), id, 0))
	testutil.Equal(t, n.look(id).Status.ExitCode, 137, "the exit code without a grace period")
	testutil.Equal(t, engine.stops.Load(), 0, "stops of the engine")
}

// Without commands of the runtime the engine sends the stop signal.
func TestRigStopThroughTheEngine(t *testing.T) {
	n := newRigNode(t)
	n.opts.Commands = nil
	id := n.shell(countSignals)
	n.isUp(id)
	testutil.Must(t, n.Stop(t.Context(), id, longRun))
	c := n.look(id)
	testutil.Equal(t, c.Status.ExitCode, 7, "the exit code")
	n.wantLog(c.Meta.LogPath, []string{"up", "TERM"})
}

// If the caller leaves during the grace period, the container has got its stop signal, and can be stopped again.
func TestRigStopOfAGoneCaller(t *testing.T) {
	n := newRigNode(t)
	id := n.shell("trap 'echo TERM' TERM; echo up; while true; do sleep 0.05; done")
	n.isUp(id)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	testutil.FailsWith(t, n.Stop(ctx, id, longRun), context.DeadlineExceeded, "Stop")
	n.wantState(id, running)
	testutil.Must(t, n.Stop(t.Context(), id, 0))
	testutil.Equal(t, n.look(id).Status.ExitCode, 137, "the exit code")
}

// The engine rounds the grace period up to whole seconds.
func TestRigGraceOfTheEngine(t *testing.T) {
	n := newRigNode(t)
	n.opts.Commands = nil
	id := n.shell("trap '' TERM; echo up; while true; do sleep 0.05; done")
	n.isUp(id)
	start := time.Now()
	testutil.Must(t, n.Stop(t.Context(), id, 300*time.Millisecond))
	testutil.Assert(t, time.Since(start) >= 900*time.Millisecond, "took %v", time.Since(start))
}

// A container to which another client gave a restart policy stays ended, because the engine stops it.
func TestRigStopOfAContainerWithARestartPolicy(t *testing.T) {
	n := newRigNode(t)
	id := n.shell(countSignals)
	n.isUp(id)
	engine.Docker(t, rigenv.Require(t).DockerHost, "update", "--restart", "always", id)
	testutil.Until(t, "the cache shows the restart policy", func() bool { return n.look(id).Status.Restarts })
	testutil.Must(t, n.Stop(t.Context(), id, longRun))
	time.Sleep(time.Second) // the engine would start it after a tenth of a second
	n.wantState(id, exited)
	testutil.Equal(t, n.look(id).Status.ExitCode, 7, "the exit code")
}

// The engine resumes a paused container, so that its process gets the signal.
func TestRigStopOfAPausedContainer(t *testing.T) {
	n := newRigNode(t)
	id := n.shell(countSignals)
	n.isUp(id)
	testutil.Must(t, n.opts.Engine.PauseContainer(t.Context(), id))
	testutil.Until(t, "the cache shows that the container is paused", func() bool { return n.look(id).Status.Paused })
	testutil.Must(t, n.Stop(t.Context(), id, longRun))
	n.wantLog(n.look(id).Meta.LogPath, []string{"up", "TERM"})
}

func TestSignalNumber(t *testing.T) {
	for text, want := range map[string]unix.Signal{
		"SIGTERM": unix.SIGTERM, "term": unix.SIGTERM, "15": unix.SIGTERM, "SIGKILL": unix.SIGKILL, "64": 64,
		"": 0, "0": 0, "65": 0, "-1": 0, "SIGRTMIN+3": 0, "SIGNONE": 0, "SIGSIGTERM": 0,
	} {
		testutil.Equal(t, signalNumber(text), want, "%q", text)
	}
}
