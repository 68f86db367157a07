package docker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestDial(t *testing.T) {
	for host, want := range map[string]error{
		"":                                    nil,
		"unix:///run/docker.sock":             nil,
		"/run/docker.sock":                    errdefs.ErrInvalidArgument,
		"unix://":                             errdefs.ErrInvalidArgument,
		"nonsense":                            errdefs.ErrInvalidArgument,
		"unix:///" + strings.Repeat("x", 200): errdefs.ErrInvalidArgument,
		"tcp://127.0.0.1:2375":                errdefs.ErrFailedPrecondition,
		"ssh://somebody@node":                 errdefs.ErrFailedPrecondition,
		"https://node:2376":                   errdefs.ErrFailedPrecondition,
		"npipe:////./pipe/docker":             errdefs.ErrFailedPrecondition,
		"fd://":                               errdefs.ErrInvalidArgument,
		"http+unix:///run/docker.sock":        errdefs.ErrFailedPrecondition,
	} {
		c, err := Dial(Options{Host: host})
		testutil.Assert(t, errors.Is(err, want) && (err == nil) == (c != nil),
			"Dial(%q): got %v, want %v", host, err, want)
	}
}

// TestRefusals checks that every call refuses an engine that cannot run pods, with a sentence that says why.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*fakeServer)
		says   string
	}{
		"19.03": {func(f *fakeServer) { f.apiVersion, f.version.Version = "1.40", "19.03.15" },
			"Docker Engine 19.03.15 (API 1.40) is too old: 20.10 or later is needed"},
		"17.06, which the client does not negotiate with": {func(f *fakeServer) {
			f.apiVersion, f.version.Version = "1.30", "17.06.2"
		},
			"Docker Engine 17.06.2 (API 1.30) is too old"},
		"no API version": {func(f *fakeServer) { f.apiVersion = "" }, "not Docker Engine"},
		"Windows":        {func(f *fakeServer) { f.version.Os = "windows" }, "Docker Engine on Linux"},
		"Podman": {func(f *fakeServer) { f.version.Components = []system.ComponentVersion{{Name: "Podman Engine"}} },
			"Podman"},
		"Docker Desktop": {func(f *fakeServer) { f.info.OperatingSystem = "Docker Desktop" }, "virtual machine"},
		"LinuxKit":       {func(f *fakeServer) { f.info.KernelVersion = "6.10.14-linuxkit" }, "virtual machine"},
		"rootless": {func(f *fakeServer) {
			f.info.SecurityOptions = []string{"name=seccomp,profile=default", "name=rootless"}
		},
			"run dockerd as root"},
		"userns-remap": {func(f *fakeServer) { f.info.SecurityOptions = []string{"name=userns"} }, "userns-remap"},
		"root elsewhere": {func(f *fakeServer) {
			f.info.DockerRootDir = "/no/such/directory"
		}, "/no/such/directory is not visible"},
		"root is a file": {func(f *fakeServer) {
			f.info.DockerRootDir = "/proc/self/status"
		}, "not visible here as a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.change(func() { c.change(f) })
			client := f.dial(0)
			ctx := testContext(t)
			_, featuresErr := client.Features(ctx)
			_, createErr := client.CreateContainer(ctx, ContainerSpec{Config: &container.Config{Image: "x"}})
			for call, err := range map[string]error{
				"Features": featuresErr, "Ping": client.Ping(ctx), "CreateContainer": createErr,
				"Events": client.Events(ctx, EventsOptions{Handle: func(Event) {}}),
			} {
				wantType(t, call, err, errdefs.ErrFailedPrecondition)
				if err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %q does not say %q", call, err, c.says)
				}
			}
		})
	}
}

// TestRefusalOfPodman shows the refusal of Podman 4.3.1, from recorded answers, and of an older API version.
func TestRefusalOfPodman(t *testing.T) {
	for name, apiVersion := range map[string]string{"4.3.1": "1.41", "3, whose API is older than 20.10's": "1.40"} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.change(func() { f.apiVersion = apiVersion })
			for _, question := range []string{"version", "info"} {
				text, err := os.ReadFile(filepath.Join("testdata", "podman-4.3.1", question+".json"))
				testutil.Must(t, err)
				f.handle("GET /"+question, answer(http.StatusOK, string(text)))
			}
			err := f.dial(0).Ping(testContext(t))
			wantType(t, "Ping", err, errdefs.ErrFailedPrecondition)
			testutil.Assert(t, err == nil || strings.Contains(err.Error(), "the socket is Podman's"),
				"%q does not name Podman", err)
		})
	}
}

func TestRefusalOfInvisibleProcess(t *testing.T) {
	err := checkVisible(0, t.TempDir())
	wantType(t, "checkVisible", err, errdefs.ErrFailedPrecondition)
	testutil.Assert(t, err == nil || strings.Contains(err.Error(), "--pid=host"), "%q does not advise --pid=host", err)
}

// TestRefusalEndsWithItsCause checks that a refused engine is accepted when the cause is gone.
func TestRefusalEndsWithItsCause(t *testing.T) {
	f := newFakeServer(t)
	f.change(func() { f.info.SecurityOptions = []string{"name=rootless"} })
	c := f.dial(0)
	wantType(t, "Ping", c.Ping(testContext(t)), errdefs.ErrFailedPrecondition)
	f.change(func() { f.info.SecurityOptions = nil })
	testutil.Check(t, c.Ping(testContext(t)), "Ping")
}

// TestForwardedSocket checks that an engine of another machine is recognised, because its running container is not on
// this machine.
func TestForwardedSocket(t *testing.T) {
	const id = "0123456789abcdef"
	inspect := func(pid int, running bool) string {
		return fmt.Sprintf(`{"Id":%q,"State":{"Running":%t,"Pid":%d}}`, id, running, pid)
	}
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		dir     bool
		refused bool
	}{
		"no process here":        {answer(200, inspect(1<<22+5, true)), true, true},
		"no directory here":      {answer(200, inspect(os.Getpid(), true)), false, true},
		"ours":                   {answer(200, inspect(os.Getpid(), true)), true, false},
		"ended since the list":   {answer(200, inspect(0, false)), false, false},
		"cannot be described":    {answer(500, `{"message":"broken"}`), false, false},
		"removed since the list": {answer(404, `{"message":"No such container"}`), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.change(func() { f.running = []container.Summary{{ID: id}} })
			f.handle("GET /containers/"+id+"/json", c.answer)
			if c.dir {
				testutil.Must(t, os.MkdirAll(f.info.DockerRootDir+"/containers/"+id, 0o700))
			}
			err := f.dial(0).Ping(testContext(t))
			if c.refused {
				wantType(t, "Ping", err, errdefs.ErrFailedPrecondition)
			} else if err != nil {
				t.Errorf("Ping: %v", err)
			}
		})
	}
}

// TestContainerWhoseEndTheEngineMissed: an engine of this machine is accepted, even if it lists a container as running
// after the end of the container's process.
func TestContainerWhoseEndTheEngineMissed(t *testing.T) {
	f := newFakeServer(t)
	f.change(func() { f.running = []container.Summary{{ID: "ended"}, {ID: "running"}} })
	for id, pid := range map[string]int{"ended": 1<<22 + 5, "running": os.Getpid()} {
		f.handle("GET /containers/"+id+"/json",
			answer(200, fmt.Sprintf(`{"Id":%q,"State":{"Running":true,"Pid":%d}}`, id, pid)))
		testutil.Must(t, os.MkdirAll(filepath.Join(f.info.DockerRootDir, "containers", id), 0o700))
	}
	testutil.Check(t, f.dial(0).Ping(testContext(t)), "Ping")
}

// TestEngineComesAndGoes uses a client that is made before the engine runs, and an engine that comes back with another
// version.
func TestEngineComesAndGoes(t *testing.T) {
	f := newFakeServer(t)
	f.stop()
	c := f.dial(0)
	ctx := testContext(t)
	_, err := c.Features(ctx)
	wantType(t, "Features before the engine runs", err, errdefs.ErrUnavailable)

	f.start()
	features, err := c.Features(ctx)
	testutil.Require(t, err == nil && features.APIVersion == "1.41" && features.ServerVersion == "20.10.24",
		"Features: %+v, %v", features, err)

	f.stop()
	wantType(t, "Ping while the engine is away", c.Ping(ctx), errdefs.ErrUnavailable)
	_, err = c.Features(ctx)
	wantType(t, "Features while the engine is away", err, errdefs.ErrUnavailable)

	f.change(func() { f.apiVersion, f.version.Version = "1.99", "99.0.0" })
	f.start()
	features, err = c.Features(ctx)
	testutil.Assert(t, err == nil && features.ServerVersion == "99.0.0" && features.Supports("1.56") &&
		!features.Supports("1.99"), "Features of the next engine: %+v, %v", features, err)
}

// TestOneConnectAtATime checks that callers that wait for a connection leave when their contexts end.
func TestOneConnectAtATime(t *testing.T) {
	f := newFakeServer(t)
	f.handle("GET /info", f.hang())
	c := f.dial(time.Minute)
	slow, stop := context.WithCancel(context.Background())
	slowEnded := testutil.Go(func() error { return c.Ping(slow) })
	for len(c.connecting) == 0 {
		time.Sleep(time.Millisecond)
	}
	quick, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	wantType(t, "who waits", c.Ping(quick), context.DeadlineExceeded)
	stop()
	wantType(t, "who connects", <-slowEnded, context.Canceled)

	f.handle("GET /info", nil)
	testutil.Check(t, c.Ping(testContext(t)), "Ping after an abandoned connect")
}

// TestNoRequestWaitsForAnotherLook checks that requests go on during another look at an engine whose OCI runtime did
// not work, even if the look hangs.
func TestNoRequestWaitsForAnotherLook(t *testing.T) {
	f := newFakeServer(t)
	c := f.dial(time.Minute)
	outdate := func() *session {
		testutil.Must(t, c.Ping(testContext(t)))
		old := *c.current.Load()
		old.nextLook = time.Now().Add(-time.Second)
		c.current.Store(&old)
		return &old
	}
	old := outdate()
	looked := make(chan struct{})
	look := sync.OnceFunc(func() { close(looked) })
	answer := make(chan struct{})
	f.handle("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		look()
		<-answer
		fail(w, http.StatusInternalServerError, "no")
	})
	testutil.Check(t, c.Ping(testContext(t)))
	<-looked
	err := c.Ping(testContext(t))
	testutil.Assert(t, err == nil && c.current.Load() == old, "during another look at the engine: %v", err)
	close(answer)
	testutil.Until(t, "the look has failed", func() bool { return len(c.connecting) == 0 })
	err = c.Ping(testContext(t))
	testutil.Assert(t, err == nil && c.current.Load() == old, "after a look that failed: %v", err)
	f.handle("GET /info", nil)
	testutil.Until(t, "another look succeeds", func() bool {
		return c.Ping(testContext(t)) == nil && c.current.Load() != old
	})
}

// TestOddAnswers checks the types of the errors for broken answers and for answers with an error.
func TestOddAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"not JSON":     {answer(200, "<html>"), errdefs.ErrInternal},
		"other JSON":   {answer(200, `["x"]`), errdefs.ErrInternal},
		"empty object": {answer(200, `{}`), errdefs.ErrInternal},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"Id":`))
		}, errdefs.ErrUnavailable},
		"hung up": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, errdefs.ErrUnavailable},
		"not found":      {answer(404, `{"message":"No such container: x"}`), errdefs.ErrNotFound},
		"conflict":       {answer(409, `{"message":"no"}`), errdefs.ErrConflict},
		"bad":            {answer(400, `{"message":"no"}`), errdefs.ErrInvalidArgument},
		"teapot":         {answer(418, `{"message":"no"}`), errdefs.ErrInternal},
		"server error":   {answer(500, `{"message":"no"}`), errdefs.ErrInternal},
		"starting":       {answer(503, `{"message":"no"}`), errdefs.ErrUnavailable},
		"gateway, HTML":  {answer(502, `<html>`), errdefs.ErrInternal},
		"no message":     {answer(500, ``), errdefs.ErrInternal},
		"no JSON inside": {answer(500, `{`), errdefs.ErrInternal},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.handle("GET /containers/x/json", c.answer)
			_, err := f.dial(0).InspectContainer(testContext(t), "x")
			wantType(t, "InspectContainer", err, c.want)
		})
	}
}

// TestTooSlow distinguishes the caller's deadline from the client's own bound.
func TestTooSlow(t *testing.T) {
	f := newFakeServer(t)
	c := f.dial(time.Second) // enough to connect on a busy machine
	testutil.Must(t, c.Ping(testContext(t)))
	connected := c.current.Load()
	f.handle("POST /containers/x/start", f.hang())
	err := c.StartContainer(testContext(t), "x")
	wantType(t, "past the request timeout", err, errdefs.ErrUnavailable)
	testutil.Assert(t, !errors.Is(err, context.DeadlineExceeded),
		"%v counts as the caller's deadline, which has not passed", err)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err = c.StartContainer(ctx, "x")
	wantType(t, "past the caller's deadline", err, context.DeadlineExceeded)
	testutil.Assert(t, !errdefs.IsUnavailable(err), "%v blames the engine for the caller's deadline", err)
	testutil.Assert(t, c.current.Load() == connected, "a slow answer ends the connection")
}

// TestConnectionsAreKept checks that a second burst of calls needs no new connection.
func TestConnectionsAreKept(t *testing.T) {
	f := newFakeServer(t)
	const burst = 40
	var arrived sync.WaitGroup
	f.handle("POST /containers/x/start", func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait() // all at once, each on a connection of its own
		w.WriteHeader(http.StatusNoContent)
	})
	c := f.dial(0)
	run := func() {
		arrived.Add(burst)
		var calls sync.WaitGroup
		for range burst {
			calls.Go(func() {
				testutil.Check(t, c.StartContainer(testContext(t), "x"))
			})
		}
		calls.Wait()
	}
	run()
	first := f.accept.Load()
	run()
	again := f.accept.Load()
	testutil.Assert(t, again == first, "the second burst opened %d connections", again-first)
}
