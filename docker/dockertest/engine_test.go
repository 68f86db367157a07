package dockertest_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// newEngine returns an engine with one more image, app:1.
func newEngine(t *testing.T, opts dockertest.Options) *dockertest.Engine {
	t.Helper()
	opts.Images = append(opts.Images, dockertest.Image{Names: []string{"app:1"}})
	e := dockertest.New(opts)
	t.Cleanup(e.Close)
	return e
}

func spec(name string, command ...string) docker.ContainerSpec {
	return docker.ContainerSpec{Name: name, Config: &container.Config{Image: "app:1", Cmd: command}}
}

// run creates and starts a container.
func run(t *testing.T, e *dockertest.Engine, s docker.ContainerSpec) string {
	t.Helper()
	id, err := e.CreateContainer(testContext(t), s)
	if err == nil {
		err = e.StartContainer(testContext(t), id)
	}
	testutil.Must(t, err)
	return id
}

func state(t *testing.T, e *dockertest.Engine, id string) container.State {
	t.Helper()
	got, err := e.InspectContainer(testContext(t), id)
	testutil.Must(t, err)
	return *got.State
}

func listed(t *testing.T, e *dockertest.Engine) container.ContainerState {
	t.Helper()
	list, err := e.ListContainers(testContext(t), nil)
	testutil.Require(t, err == nil && len(list) == 1, "%v, %v", list, err)
	return list[0].State
}

// events collects the kinds of events until the test ends.
func events(t *testing.T, e *dockertest.Engine) func() []docker.EventKind {
	t.Helper()
	var mu sync.Mutex
	var kinds []docker.EventKind
	subscribed := make(chan struct{})
	testutil.Background(t, func(ctx context.Context) error {
		_ = e.Events(ctx, docker.EventsOptions{
			Subscribed: func() { close(subscribed) },
			Handle: func(event docker.Event) {
				mu.Lock()
				defer mu.Unlock()
				kinds = append(kinds, event.Kind)
			},
		})
		return nil
	})
	<-subscribed
	return func() []docker.EventKind {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(kinds)
	}
}

// TestListLags checks that the list of 20.10 shows a dead container as running for a moment, and the list of 29 does
// not.
func TestListLags(t *testing.T) {
	old := newEngine(t, dockertest.Options{EventLag: 100 * time.Millisecond})
	id := run(t, old, spec("one"))
	seen := events(t, old)
	testutil.Must(t, old.Exit(id, 2))
	testutil.Until(t, "die", func() bool { return slices.Contains(seen(), docker.ContainerDied) })
	testutil.Equal(t, listed(t, old), container.StateRunning, "the list is right at once")
	got := state(t, old, id)
	testutil.Assert(t, got.Status == container.StateExited && got.ExitCode == 2, "the inspect is wrong: %+v", got)
	testutil.Until(t, "the list is right", func() bool { return listed(t, old) == container.StateExited })

	recent := newEngine(t, dockertest.Options{Flavor: dockertest.Docker29, EventLag: 100 * time.Millisecond})
	id = run(t, recent, spec("one"))
	testutil.Must(t, recent.Exit(id, 2))
	testutil.Equal(t, listed(t, recent), container.StateExited, "the list of 29 lags")
}

// TestDieEvent checks when the die event comes. On Docker 29 it comes some time after the stop has returned. On both
// versions it comes before the event of the removal.
func TestDieEvent(t *testing.T) {
	old := newEngine(t, dockertest.Options{})
	recent := newEngine(t, dockertest.Options{Flavor: dockertest.Docker29, EventLag: 100 * time.Millisecond})
	for name, e := range map[string]*dockertest.Engine{"20.10": old, "29": recent} {
		id := run(t, e, spec("one"))
		seen := events(t, e)
		testutil.Must(t, e.StopContainer(testContext(t), id, time.Second))
		testutil.Assert(t, e != recent || len(seen()) == 0, "%s: die came with the stop", name)
		testutil.Must(t, e.RemoveContainer(testContext(t), id))
		testutil.Until(t, "the removal is reported",
			func() bool { return slices.Contains(seen(), docker.ContainerRemoved) })
		time.Sleep(150 * time.Millisecond)
		if want := []docker.EventKind{docker.ContainerDied, docker.ContainerRemoved}; !slices.Equal(seen(), want) {
			t.Errorf("%s: got %v, want %v", name, seen(), want)
		}
	}
}

func TestOOM(t *testing.T) {
	e := newEngine(t, dockertest.Options{Programs: []dockertest.Program{{Exits: true, ExitCode: 137, OOMKilled: true}}})
	seen := events(t, e)
	id := run(t, e, spec("greedy"))
	testutil.Until(t, "die", func() bool { return slices.Contains(seen(), docker.ContainerDied) })
	got := state(t, e, id)
	testutil.Assert(t, got.OOMKilled && got.ExitCode == 137, "%+v", got)
	if !slices.Contains(seen(), docker.ContainerOOM) {
		t.Errorf("events %v", seen())
	}
}

func TestPrograms(t *testing.T) {
	e := newEngine(t, dockertest.Options{Programs: []dockertest.Program{
		{Command: "two words", Image: "other", Exits: true, ExitCode: 1},
		{Command: "two words", Image: "docker.io/library/app:1", Exits: true, ExitCode: 2},
	}})
	first := run(t, e, spec("first", "two", "words"))
	testutil.Until(t, "exit", func() bool { return state(t, e, first).ExitCode == 2 })
	e.Behave(dockertest.Program{Command: "two words", Exits: true, ExitCode: 3})
	second := run(t, e, spec("second", "two", "words"))
	testutil.Until(t, "exit", func() bool { return state(t, e, second).ExitCode == 3 })
	third := run(t, e, spec("third", "other"))
	time.Sleep(20 * time.Millisecond)
	got := state(t, e, third)
	testutil.Assert(t, got.Running, "without a program: %+v", got)
}

func TestSignalPID(t *testing.T) {
	e := newEngine(t,
		dockertest.Options{Programs: []dockertest.Program{{Command: "stubborn", Ignores: []string{"SIGTERM"}}}})
	id := run(t, e, spec("one"))
	execID, err := e.CreateExec(testContext(t), id, docker.ExecOptions{Command: []string{"stubborn"}})
	testutil.Must(t, err)
	stream, err := e.AttachExec(testContext(t), execID, docker.ExecOptions{})
	testutil.Must(t, err)
	defer func() { _ = stream.Close() }()
	exec := func() docker.ExecState {
		got, err := e.InspectExec(testContext(t), execID)
		testutil.Must(t, err)
		return got
	}
	pid := exec().PID
	if err := e.SignalPID(pid, "SIGTERM"); err != nil || !exec().Running {
		t.Errorf("an ignored signal: %v, %+v", err, exec())
	}
	if err := e.SignalPID(pid, "9"); err != nil || exec().Running || exec().ExitCode != 137 {
		t.Errorf("SIGKILL: %v, %+v", err, exec())
	}
	testutil.Fails(t, e.SignalPID(pid, "KILL"), errdefs.IsNotFound, "a process that is gone")
	if err := e.SignalPID(state(t, e, id).Pid, "INT"); err != nil || state(t, e, id).ExitCode != 130 {
		t.Errorf("SIGINT: %v, %+v", err, state(t, e, id))
	}
}

func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		fault   dockertest.Fault
		errs    []error // of consecutive calls
		effects int     // containers that were created
	}{
		"for good":        {dockertest.Fault{}, []error{errdefs.ErrUnavailable, errdefs.ErrUnavailable}, 0},
		"twice":           {dockertest.Fault{Err: boom, Times: 2}, []error{boom, boom, nil, nil}, 2},
		"after effect":    {dockertest.Fault{Err: boom, AfterEffect: true, Times: 1}, []error{boom, nil}, 2},
		"of one":          {dockertest.Fault{Err: boom, Object: "c1"}, []error{nil, boom, nil}, 2},
		"slow":            {dockertest.Fault{Delay: time.Millisecond}, []error{nil}, 1},
		"slow, then fail": {dockertest.Fault{Delay: time.Millisecond, Err: boom}, []error{boom}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, dockertest.Options{})
			remove := e.Inject("CreateContainer", c.fault)
			for n, want := range c.errs {
				_, err := e.CreateContainer(testContext(t), spec(fmt.Sprintf("c%d", n)))
				testutil.Assert(t, errors.Is(err, want), "call %d: got %v, want %v", n, err, want)
			}
			list, err := e.ListContainers(testContext(t), nil)
			testutil.Assert(t, err == nil && len(list) == c.effects,
				"%d containers, want %d; %v", len(list), c.effects, err)
			remove()
			_, err = e.CreateContainer(testContext(t), spec("last"))
			testutil.Check(t, err, "a removed fault")
			testutil.Equal(t, e.Calls("CreateContainer"), len(c.errs)+1, "calls are counted")
		})
	}
}

// TestAnswersAreNoted checks that each answer moves LastAnswer. It also checks that a fault can fail Ping and Features
// after their effect.
func TestAnswersAreNoted(t *testing.T) {
	boom := errors.New("boom")
	for name, call := range map[string]func(*dockertest.Engine) error{
		"Ping":     func(e *dockertest.Engine) error { return e.Ping(testContext(t)) },
		"Features": func(e *dockertest.Engine) error { _, err := e.Features(testContext(t)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, dockertest.Options{})
			e.Inject(name, dockertest.Fault{Err: boom, AfterEffect: true, Times: 1})
			err := call(e)
			testutil.Assert(t, errors.Is(err, boom), "a fault after the effect: %v", err)
			testutil.Must(t, call(e))
			testutil.Assert(t, !e.LastAnswer().IsZero(), "the answer does not set LastAnswer")
		})
	}
}

// TestArchiveTooLarge checks that an archive with a very large file is refused, not truncated.
func TestArchiveTooLarge(t *testing.T) {
	var archive bytes.Buffer
	testutil.Must(t, tar.NewWriter(&archive).WriteHeader(&tar.Header{Name: "layer.tar", Size: 65 << 20}))
	err := newEngine(t, dockertest.Options{}).LoadImage(testContext(t), &archive)
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "layer.tar has 68157440 bytes"), "%v", err)
}

func TestFaultBlocks(t *testing.T) {
	e := newEngine(t, dockertest.Options{})
	e.Inject("Ping", dockertest.Fault{Block: true})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := e.Ping(ctx)
	testutil.Assert(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
}

// TestAwayEndsWhatWaits checks that no call hangs when the engine goes away.
func TestAwayEndsWhatWaits(t *testing.T) {
	for name, away := range map[string]func(*dockertest.Engine){
		"Away": (*dockertest.Engine).Away, "Crash": (*dockertest.Engine).Crash, "Close": (*dockertest.Engine).Close,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t,
				dockertest.Options{Programs: []dockertest.Program{{Command: "", Ignores: []string{"SIGTERM"}}}})
			id := run(t, e, spec("one"))
			execID, err := e.CreateExec(testContext(t), id, docker.ExecOptions{Command: []string{"x"}})
			testutil.Must(t, err)
			stream, err := e.AttachExec(testContext(t), execID, docker.ExecOptions{})
			testutil.Must(t, err)
			stopped := testutil.Go(func() error { return e.StopContainer(context.Background(), id, time.Hour) })
			watched := testutil.Go(func() error {
				return e.Events(context.Background(), docker.EventsOptions{Handle: func(docker.Event) {}})
			})
			read := testutil.Try(func() (int, error) { return stream.Read(make([]byte, 1)) })
			time.Sleep(20 * time.Millisecond)
			away(e)
			testutil.Fails(t, <-stopped, errdefs.IsUnavailable, "StopContainer")
			testutil.Fails(t, <-watched, errdefs.IsUnavailable, "Events")
			testutil.Assert(t, <-read != nil, "Read does not fail")
		})
	}
}

// TestCrashWithoutLiveRestore shows that containers die with their engine.
func TestCrashWithoutLiveRestore(t *testing.T) {
	e := newEngine(t, dockertest.Options{})
	id := run(t, e, spec("one"))
	e.Crash()
	e.Back()
	got := state(t, e, id)
	testutil.Assert(t, !got.Running && got.ExitCode == 137, "%+v", got)
	seen := events(t, e)
	time.Sleep(30 * time.Millisecond)
	if len(seen()) > 0 {
		t.Errorf("the death is reported: %v", seen())
	}
	e.Close()
	e.Back()
	testutil.Fails(t, e.Ping(testContext(t)), errdefs.IsUnavailable, "a closed engine comes back")
}

// TestEventsAreForgotten checks that only the last 256 events are replayed.
func TestEventsAreForgotten(t *testing.T) {
	e := newEngine(t, dockertest.Options{})
	began := time.Now()
	for n := range 300 {
		_, err := e.CreateContainer(testContext(t), spec(fmt.Sprintf("c%d", n)))
		testutil.Must(t, err)
	}
	last, err := e.CreateContainer(testContext(t), spec("last"))
	testutil.Must(t, err)
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	count := 0
	_ = e.Events(ctx, docker.EventsOptions{Since: began.Add(-time.Second), Handle: func(event docker.Event) {
		if count++; event.ID == last {
			cancel()
		}
	}})
	testutil.Assert(t, count == 256, "%d events are replayed", count)
}

func TestRegistry(t *testing.T) {
	auth := &docker.Auth{Username: "me", Password: "secret"}
	e := newEngine(t,
		dockertest.Options{
			Registry: []dockertest.Image{{Names: []string{"r.example/private:1"}, Auth: auth, Layers: 2}}})
	ctx := testContext(t)
	testutil.Fails(t, e.PullImage(ctx, "r.example/private:1", docker.PullOptions{}), errdefs.IsUnauthorized,
		"without credentials")
	signs := 0
	err := e.PullImage(ctx, "r.example/private:1",
		docker.PullOptions{Auth: auth, Progress: func(docker.PullPhase) { signs++ }})
	testutil.Assert(t, err == nil && signs == 2, "with credentials: %d signs of progress, %v", signs, err)
	first, err := e.InspectImage(ctx, "r.example/private:1")
	testutil.Must(t, err)
	e.Publish(dockertest.Image{Names: []string{"r.example/private:1"}, ID: "sha256:" + fmt.Sprintf("%064d", 1)})
	testutil.Must(t, e.PullImage(ctx, "r.example/private:1", docker.PullOptions{}))
	second, err := e.InspectImage(ctx, "r.example/private:1")
	testutil.Assert(t, err == nil && second.ID != first.ID, "a tag that moved has the image %s, %v", second.ID, err)
	old, err := e.InspectImage(ctx, first.ID)
	testutil.Assert(t, err == nil && len(old.RepoTags) == 0, "the image that lost its tag: %+v, %v", old, err)
}

// TestImageIDs checks that an image's id is the manifest's digest only with the containerd image store.
func TestImageIDs(t *testing.T) {
	for flavor, same := range map[dockertest.Flavor]bool{dockertest.Docker20: false, dockertest.Docker29: true} {
		e := newEngine(t, dockertest.Options{Flavor: flavor})
		image, err := e.InspectImage(testContext(t), "app:1")
		testutil.Must(t, err)
		if got := slices.Contains(image.RepoDigests, "app@"+image.ID); got != same {
			t.Errorf("flavor %d: the id %s is in a digest: %t, digests %v", flavor, image.ID, got, image.RepoDigests)
		}
	}
}

// TestSaveOfAnImageThatGetsNames saves an image while it gets names. The race detector sees a read without the lock.
func TestSaveOfAnImageThatGetsNames(t *testing.T) {
	e := newEngine(t, dockertest.Options{})
	var both errgroup.Group
	both.Go(func() error {
		for i := range 100 {
			if err := e.TagImage(testContext(t), "app:1", fmt.Sprintf("app:x%d", i)); err != nil {
				return err
			}
		}
		return nil
	})
	both.Go(func() error {
		for range 100 {
			if err := e.SaveImage(testContext(t), "app:1", io.Discard); err != nil {
				return err
			}
		}
		return nil
	})
	testutil.Check(t, both.Wait())
}
