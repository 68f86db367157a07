package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/proctable"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/ociexec"
)

func TestExecSync(t *testing.T) {
	n, engine := newFakeNode(t,
		dockertest.Program{Command: "both", Exits: true, Stdout: "out", Stderr: "err"},
		dockertest.Program{Command: "fails", Exits: true, ExitCode: 3, ExitAfter: 30 * time.Millisecond},
		dockertest.Program{Command: "nosuch", Start: errors.New("no such command")},
	)
	id := n.running("sleep")
	tests := []struct {
		command, stdout, stderr string
		code                    int32
	}{
		{"true", "", "", 0},
		{"both", "out", "err", 0},
		{"fails", "", "", 3},
		{"nosuch", "no such command\r\n", "", 126},
	}
	for _, tt := range tests {
		before := engine.Calls("InspectExec")
		got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{tt.command}, Timeout: time.Minute})
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		if string(got.Stdout) != tt.stdout || string(got.Stderr) != tt.stderr || got.ExitCode != tt.code {
			t.Errorf("%s: %q, %q, %d; want %q, %q, %d", tt.command, got.Stdout, got.Stderr, got.ExitCode, tt.stdout,
				tt.stderr, tt.code)
		}
		looks := engine.Calls("InspectExec") - before
		testutil.Assert(t, looks <= 1, "%s: the engine was asked %d times", tt.command, looks)
	}
}

func TestExecSyncRefuses(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.create(n.pod(), n.config("sleep"))
	_, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"true"}})
	testutil.Assert(t, errdefs.IsFailedPrecondition(err), "created container: %v", err)
	n.start(id)
	_, err = n.ExecSync(t.Context(), id, ExecRequest{})
	testutil.Fails(t, err, errdefs.IsInvalidArgument, "no command")
	_, err = n.ExecSync(t.Context(), "feedbeef", ExecRequest{Command: []string{"true"}})
	testutil.Fails(t, err, errdefs.IsNotFound, "unknown container")
	// The cache does not know of the end yet.
	engine.Inject("CreateExec", dockertest.Fault{Err: errdefs.ErrConflict, Times: 1})
	_, err = n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"true"}})
	testutil.Fails(t, err, errdefs.IsFailedPrecondition, "container that has just ended")
	engine.Inject("AttachExec", dockertest.Fault{Times: 1})
	engine.Inject("InspectExec", dockertest.Fault{Times: 1})
	_, err = n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"true"}})
	testutil.Fails(t, err, errdefs.IsUnavailable, "engine away")
}

// deafEngine loses the ends of commands among its events.
type deafEngine struct{ docker.Engine }

func (e deafEngine) Events(ctx context.Context, opts docker.EventsOptions) error {
	handle := opts.Handle
	opts.Handle = func(event docker.Event) {
		if event.Kind != docker.ExecDied {
			handle(event)
		}
	}
	return e.Engine.Events(ctx, opts)
}

// If the event of a command's end is lost, one inspect finds the end. Nothing polls.
func TestExecSyncWithoutTheEvent(t *testing.T) {
	_, engine := newFakeNode(t,
		dockertest.Program{Command: "slow", Exits: true, ExitCode: 4, ExitAfter: 50 * time.Millisecond})
	n := newNode(t, deafEngine{engine}, "busybox", "pause")
	id := n.running("sleep")
	got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"slow"}})
	testutil.Assert(t, err == nil && got.ExitCode == 4, "ExecSync: %v, %v", got, err)
	looks := engine.Calls("InspectExec")
	testutil.Assert(t, looks == 1, "the engine was asked %d times", looks)
}

// forgetful is an engine that no longer knows any command, as after the removal of the container.
type forgetful struct{ docker.Engine }

func (forgetful) InspectExec(context.Context, string) (docker.ExecState, error) {
	return docker.ExecState{}, errdefs.ErrNotFound
}

// TestExecSyncLost: if the container ends while a command runs, the error is the same as for a command in a container
// that does not run.
func TestExecSyncLost(t *testing.T) {
	_, engine := newFakeNode(t, dockertest.Program{Command: "ends", Exits: true})
	n := newNode(t, forgetful{engine}, "busybox", "pause")
	id := n.running("sleep")
	_, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"ends"}})
	testutil.Assert(t, errdefs.IsFailedPrecondition(err), "ExecSync: %v", err)
}

// immortalRun is a command whose keeper is gone, and which cannot be killed in time.
type immortalRun struct{ refusedRun }

func (immortalRun) waitExit(context.Context, <-chan struct{}) (int, error) {
	return 0, ociexec.ErrKeeper
}

func (immortalRun) pid(context.Context, <-chan struct{}) (int, error) {
	return 0, context.DeadlineExceeded
}

// A kubelet counts a command's time-out as a failure of the probe, and ignores other errors.
func TestSlowKillIsNoTimeout(t *testing.T) {
	_, err := (&process{service: &Service{}, run: &immortalRun{}}).wait(t.Context())
	testutil.Assert(t, errors.Is(err, ociexec.ErrKeeper) && !errors.Is(err, context.DeadlineExceeded), "got %v", err)
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err = (&process{service: &Service{}, run: &immortalRun{}}).wait(ctx)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "at the deadline: %v", err)
}

// forge gives a container labels that replace attributes of exec_die events. Labels of an image can do this, too.
func forge(config *runtimeapi.ContainerConfig) {
	config.Labels = map[string]string{"exitCode": "0", "execID": "forged"}
}

// A label of an image changes neither the exit code of a command nor its id.
func TestExecSyncWithForgedEvents(t *testing.T) {
	n, engine := newFakeNode(t, dockertest.Program{Command: "fails", Exits: true, ExitCode: 3})
	config := n.config("sleep")
	forge(config)
	id := n.started(n.pod(), config)
	got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"fails"}})
	testutil.Assert(t, err == nil && got.ExitCode == 3, "ExecSync: %v, %v", got, err)
	looks := engine.Calls("InspectExec")
	testutil.Assert(t, looks == 1, "the engine was asked %d times", looks)
}

// busyEngine hands on the output of commands in pieces, with pauses.
type busyEngine struct {
	docker.Engine
	pause time.Duration
}

func (e busyEngine) AttachExec(ctx context.Context, id string, opts docker.ExecOptions) (docker.Stream, error) {
	stream, err := e.Engine.AttachExec(ctx, id, opts)
	return slowStream{stream, e.pause}, err
}

type slowStream struct {
	docker.Stream
	pause time.Duration
}

func (s slowStream) Read(p []byte) (int, error) {
	time.Sleep(s.pause)
	return s.Stream.Read(p[:min(len(p), 4000)])
}

// A busy engine may deliver output after the command's end. ExecSync waits while output comes. A deadline that cuts the
// output off is an error.
func TestExecSyncWaitsForALateOutput(t *testing.T) {
	text := strings.Repeat("x", 20000)
	_, engine := newFakeNode(t, dockertest.Program{Command: "talk", Exits: true, Stdout: text})
	n := newNode(t, busyEngine{engine, 300 * time.Millisecond}, "busybox", "pause")
	id := n.running("sleep")
	got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"talk"}})
	testutil.Assert(t, err == nil && string(got.Stdout) == text,
		"ExecSync: %d of %d bytes, %v", len(got.Stdout), len(text), err)
	_, err = n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"talk"}, Timeout: time.Second})
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "with a time limit: %v", err)
}

// daemonEngine is an engine on which every command leaves a child behind that writes to its output again and again.
type daemonEngine struct {
	docker.Engine
	pause time.Duration
}

func (e daemonEngine) AttachExec(ctx context.Context, id string, opts docker.ExecOptions) (docker.Stream, error) {
	stream, err := e.Engine.AttachExec(ctx, id, opts)
	return &daemonStream{Stream: stream, pause: e.pause, closed: make(chan struct{})}, err
}

type daemonStream struct {
	docker.Stream
	pause  time.Duration
	child  bytes.Buffer
	closed chan struct{}
}

func (s *daemonStream) Read(p []byte) (int, error) {
	if n, err := s.Stream.Read(p); !errors.Is(err, io.EOF) {
		return n, err
	}
	if s.child.Len() == 0 {
		select {
		case <-time.After(s.pause):
		case <-s.closed:
			return 0, io.EOF
		}
		s.child.Write([]byte{1, 0, 0, 0, 0, 0, 0, 1, '.'}) // the header of one byte on the standard output
	}
	return s.child.Read(p)
}

func (s *daemonStream) Close() error {
	close(s.closed)
	return s.Stream.Close()
}

// ExecSync of a command that has ended succeeds in bounded time, even if a child of the command writes for ever.
func TestExecSyncLeavesAChildThatWritesForEver(t *testing.T) {
	for timeout, limit := range map[time.Duration]time.Duration{0: maxLateOutput, 2 * dryOutput: 2 * dryOutput} {
		synctest.Test(t, func(t *testing.T) {
			_, engine := newFakeNode(t,
				dockertest.Program{Command: "daemon", Exits: true, ExitCode: 3, Stdout: "started"})
			n := newNode(t, daemonEngine{engine, quietOutput / 2}, "busybox", "pause")
			id := n.running("sleep")
			ctx, cancel := context.WithTimeout(t.Context(), 2*maxLateOutput)
			defer cancel()
			begun := time.Now()
			got, err := n.ExecSync(ctx, id, ExecRequest{Command: []string{"daemon"}, Timeout: timeout})
			testutil.Require(t, err == nil && got.ExitCode == 3 && strings.HasPrefix(string(got.Stdout), "started."),
				"ExecSync: %v, %v", got, err)
			took := time.Since(begun)
			testutil.Assert(t, took <= limit+quietOutput, "time-out %v: took %v, want at most %v", timeout, took, limit)
		})
	}
}

func TestExecSyncEndsWithItsCaller(t *testing.T) {
	n, _ := newFakeNode(t, dockertest.Program{Command: "long"})
	n2, _ := newFakeNode(t, dockertest.Program{Command: "long", Exits: true, ExitAfter: time.Hour})
	for _, n := range []*node{n, n2} {
		id := n.running("sleep")
		start := time.Now()
		_, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"long"}, Timeout: 50 * time.Millisecond})
		testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "time-out: %v", err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		_, err = n.ExecSync(ctx, id, ExecRequest{Command: []string{"long"}})
		testutil.Assert(t, errors.Is(err, context.Canceled), "cancelled: %v", err)
		took := time.Since(start)
		testutil.Assert(t, took <= longRun, "took %v", took)
	}
}

// The engine hangs in the start of the command.
func TestExecSyncEndsWithItsCallerDuringTheStart(t *testing.T) {
	n, engine := newFakeNode(t)
	id := n.running("sleep")
	engine.Inject("AttachExec", dockertest.Fault{Block: true})
	start := time.Now()
	_, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"true"}, Timeout: 50 * time.Millisecond})
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "ExecSync: %v", err)
	took := time.Since(start)
	testutil.Assert(t, took <= longRun, "took %v", took)
}

func TestExecSyncLeavesNoGoroutines(t *testing.T) {
	n, _ := newFakeNode(t,
		dockertest.Program{Command: "long", Exits: true, ExitAfter: time.Hour},
		dockertest.Program{Command: "both", Exits: true, Stdout: "out"},
	)
	id := n.running("sleep")
	check := testutil.NoMoreGoroutines(t)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, _ = n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"long"}, Timeout: 20 * time.Millisecond})
			_, _ = n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"both"}})
		})
	}
	group.Wait()
	check()
}

func TestEnded(t *testing.T) {
	tests := []struct {
		name               string
		state              docker.ExecState
		outputEnded, later bool
		want               bool
	}{
		{"not started", docker.ExecState{}, false, true, false},
		{"runs", docker.ExecState{Running: true, PID: 7}, true, true, false},
		{"ended, a child holds the output", docker.ExecState{PID: 7}, false, false, true},
		{"ended", docker.ExecState{PID: 7, ExitCode: 1}, true, false, true},
		{"could not start", docker.ExecState{ExitCode: 126}, true, false, true},
		{"its end may not be recorded yet", docker.ExecState{}, true, false, false},
		{"no change after a pause", docker.ExecState{}, true, true, true},
	}
	for _, tt := range tests {
		testutil.Equal(t, ended(tt.state, tt.outputEnded, tt.later), tt.want, "%s", tt.name)
	}
}

func TestOutputBuffer(t *testing.T) {
	b := &outputBuffer{limit: 5, budget: &budget{}}
	for _, text := range []string{"abc", "defg", "hi"} {
		n, err := b.Write([]byte(text))
		testutil.Assert(t, n == len(text) && err == nil, "Write(%q) = %d, %v", text, n, err)
	}
	testutil.Equal(t, string(b.Bytes()), "abcde", "kept")
}

// A hundred noisy commands together keep at most outputBudget bytes, plus freeOutput bytes for each command. A quiet
// command loses nothing.
func TestOutputBudget(t *testing.T) {
	shared := &budget{left: outputBudget}
	piece := bytes.Repeat([]byte("x"), 32<<10)
	var noisy []*outputBuffer
	for range 100 {
		b := &outputBuffer{limit: maxOutput, budget: shared}
		noisy = append(noisy, b)
		for range maxOutput/len(piece) + 1 {
			n, err := b.Write(piece)
			testutil.Require(t, n == len(piece) && err == nil, "Write = %d, %v", n, err)
		}
	}
	kept := 0
	for _, b := range noisy {
		kept += cap(b.kept)
		testutil.Assert(t, len(b.Bytes()) >= freeOutput, "a command keeps %d bytes", len(b.Bytes()))
	}
	most := outputBudget + len(noisy)*freeOutput
	testutil.Assert(t, kept <= most && kept >= outputBudget, "%d bytes are kept, want %d at most", kept, most)
	quiet := &outputBuffer{limit: maxOutput, budget: shared}
	for range 10 {
		_, _ = quiet.Write([]byte("healthy\n"))
	}
	testutil.Equal(t, string(quiet.Bytes()), strings.Repeat("healthy\n", 10), "the quiet command keeps")
	cut := noisy[len(noisy)-1]
	before := len(cut.Bytes())
	for _, b := range noisy[:50] {
		b.release()
	}
	_, _ = cut.Write(piece)
	testutil.Assert(t, len(cut.Bytes()) == before, "output is kept behind a gap")
	for _, b := range noisy {
		b.release()
	}
	testutil.Assert(t, shared.left == outputBudget, "the budget has %d bytes left, want %d", shared.left, outputBudget)
}

// ExecSync returns its share of the budget for output.
func TestExecSyncGivesItsBudgetBack(t *testing.T) {
	n, _ := newFakeNode(t, dockertest.Program{Command: "noisy", Exits: true, Stdout: strings.Repeat("x", 1<<20)})
	id := n.running("sleep")
	got, err := n.ExecSync(t.Context(), id, ExecRequest{Command: []string{"noisy"}})
	testutil.Assert(t, err == nil && len(got.Stdout) == 1<<20 && n.output.left == outputBudget,
		"%d bytes, %v, %d left", len(got.Stdout), err, n.output.left)
}

func TestFit(t *testing.T) {
	tests := []struct{ stdout, stderr, wantStdout, wantStderr int }{
		{0, 0, 0, 0},
		{100, 200, 100, 200},
		{maxOutput, 0, maxResponse, 0},
		{0, maxOutput, 0, maxResponse},
		{maxOutput, 100, maxResponse - 100, 100},
		{maxOutput, maxOutput, maxResponse / 2, maxResponse / 2},
		{maxOutput, maxOutput - 1, maxResponse / 2, maxResponse / 2},
		{maxResponse, 0, maxResponse, 0},
	}
	for _, tt := range tests {
		stdout, stderr := fit(make([]byte, tt.stdout), make([]byte, tt.stderr))
		if len(stdout) != tt.wantStdout || len(stderr) != tt.wantStderr {
			t.Errorf("fit(%d, %d) = %d, %d; want %d, %d", tt.stdout, tt.stderr, len(stdout), len(stderr), tt.wantStdout,
				tt.wantStderr)
		}
	}
}

func TestExitCode(t *testing.T) {
	for code, want := range map[int]int32{0: 0, 137: 137, -1: -1, math.MaxInt: math.MaxInt32} {
		testutil.Equal(t, exitCode(code), want, "exitCode(%d)", code)
	}
}

// killTree kills no process outside of the container, even if the engine reports its id as the command's.
func TestKillTreeSparesOthers(t *testing.T) {
	n, _ := newFakeNode(t)
	all, err := proctable.All()
	testutil.Require(t, err == nil && len(all) != 0, "%d processes, %v", len(all), err)
	testutil.Check(t, n.killTree(t.Context(), 1, strings.Repeat("0", 64)), "killTree")
}

// cgroupAt is a container's cgroup in a directory.
type cgroupAt string

func (dir cgroupAt) CgroupDir(string, int, string) (string, bool, error) {
	if dir == "" {
		return "", false, errdefs.ErrNotFound
	}
	return string(dir), true, nil
}

func (cgroupAt) OOMKills(string, string) (uint64, bool) { return 0, false }

// processesOf lists the processes in the container's cgroup. It lists all of /proc only if the cgroup shows none.
func TestProcessesOfAContainer(t *testing.T) {
	n, _ := newFakeNode(t)
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	testutil.Must(t, os.Mkdir(below, 0o755))
	self, parent := os.Getpid(), os.Getppid()
	for path, text := range map[string]string{dir: fmt.Sprintf("0\n%d\n999999999\n", self),
		below: fmt.Sprintf("%d\n", parent)} {
		testutil.Must(t, os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(text), 0o600))
	}
	n.opts.Cgroups = cgroupAt(dir)
	all, err := n.processesOf("c", self)
	testutil.Assert(t, err == nil && len(all) == 2 && all[0].PID == self && all[1].PID == parent,
		"got %+v, %v", all, err)
	for name, cgroups := range map[string]Cgroups{"none": nil, "not found": cgroupAt(""),
		"empty": cgroupAt(t.TempDir())} {
		n.opts.Cgroups = cgroups
		all, err := n.processesOf("c", self)
		testutil.Assert(t, err == nil && len(all) >= 3, "%s: got %+v, %v", name, all, err)
	}
}
