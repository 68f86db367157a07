package engine

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// newEngine prepares an engine in the rig that ends with the test.
func newEngine(t *testing.T, env rigenv.Env, config map[string]any) *Engine {
	t.Helper()
	return newForTest(t, Options{Env: env, Config: config})
}

func mustStart(t *testing.T, e *Engine) *client.Client {
	t.Helper()
	testutil.Must(t, e.Start(t.Context()))
	cli, err := client.New(client.WithHost(e.Host()))
	testutil.Must(t, err)
	t.Cleanup(func() { cli.Close() })
	return cli
}

// runSleep starts a container that keeps running.
func runSleep(t *testing.T, env rigenv.Env, cli *client.Client) (id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	ref := env.Image("test/busybox:latest")
	pull, err := cli.ImagePull(ctx, ref, client.ImagePullOptions{})
	testutil.Must(t, err)
	defer pull.Close()
	testutil.Must(t, pull.Wait(ctx))
	created, err := cli.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{
			Image: ref, Cmd: []string{"sleep", "1000"}, NetworkDisabled: true,
			StopSignal: "SIGKILL", // the first process of a container ignores SIGTERM
		},
	})
	testutil.Must(t, err)
	_, err = cli.ContainerStart(ctx, created.ID, client.ContainerStartOptions{})
	testutil.Must(t, err)
	return created.ID
}

// pid returns the container's process, 0 when it does not run.
func pid(t *testing.T, cli *client.Client, id string) int {
	t.Helper()
	answer, err := cli.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	testutil.Must(t, err)
	return answer.Container.State.Pid
}

func alive(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}

func TestContainersOutliveAKilledEngine(t *testing.T) {
	env := rigenv.Require(t)
	e := newEngine(t, env, map[string]any{"live-restore": true})
	cli := mustStart(t, e)
	id := runSleep(t, env, cli)
	before := pid(t, cli, id)

	e.Kill()
	testutil.Assert(t, e.PID() == 0, "the engine still has a process")
	_, err := cli.Ping(t.Context(), client.PingOptions{})
	testutil.Assert(t, err != nil, "the killed engine answers")
	testutil.Assert(t, alive(before), "the container died with the engine")
	cli = mustStart(t, e)
	testutil.Equal(t, pid(t, cli, id), before, "the container's process after the restart")
}

func TestTerminateWithoutLiveRestoreStopsContainers(t *testing.T) {
	env := rigenv.Require(t)
	e := newEngine(t, env, nil)
	cli := mustStart(t, e)
	id := runSleep(t, env, cli)
	process := pid(t, cli, id)
	testutil.Check(t, e.Terminate(t.Context()))
	testutil.Assert(t, !alive(process), "the container still runs")
	cli = mustStart(t, e)
	testutil.Equal(t, pid(t, cli, id), 0, "the container's process after the restart")
}

func TestCloseRemovesContainers(t *testing.T) {
	env := rigenv.Require(t)
	e := newEngine(t, env, nil)
	cli := mustStart(t, e)
	runSleep(t, env, cli)
	testutil.Must(t, e.Close(t.Context()))
	testutil.Check(t, e.Close(t.Context()), "closed again")
	cli = mustStart(t, e)
	list, err := cli.ContainerList(t.Context(), client.ContainerListOptions{All: true})
	testutil.Assert(t, err == nil && len(list.Items) <= 0, "containers left: %v, %v", list.Items, err)
}

func TestStartTwice(t *testing.T) {
	env := rigenv.Require(t)
	e := newEngine(t, env, nil)
	mustStart(t, e)
	err := e.Start(t.Context())
	testutil.Assert(t, err != nil, "started twice")
}

func TestFailedStartShowsTheLog(t *testing.T) {
	env := rigenv.Require(t)
	e := newEngine(t, env, map[string]any{"storage-driver": "none-such"})
	err := e.Start(t.Context())
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "none-such"),
		"error %v, want the engine's log in it", err)
	testutil.Assert(t, e.PID() == 0, "the engine still has a process")
}

func TestStartEndsWithItsContext(t *testing.T) {
	env := rigenv.Require(t)
	e := newEngine(t, env, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := e.Start(ctx)
	testutil.Assert(t, err != nil, "started under a cancelled context")
	testutil.Assert(t, e.PID() == 0, "the engine still has a process")
}

// TestSignalWithoutDockerd sends nothing, in particular not to the test's own process group.
func TestSignalWithoutDockerd(t *testing.T) {
	err := new(Engine).Signal(0)
	testutil.Assert(t, err != nil, "a dockerd that does not run was signalled")
}

func TestNewRefuses(t *testing.T) {
	env := rigenv.Env{Dockerd: "/bin/true"}
	_, err := New(Options{Env: env})
	testutil.Assert(t, err != nil, "New accepts Options without a directory")
	_, err = New(Options{Env: env, Dir: "/tmp/" + strings.Repeat("x", maxDir)})
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "TMPDIR"),
		"with a long path: %v, want the advice to set TMPDIR", err)
	_, err = New(Options{Dir: t.TempDir(), Env: rigenv.Env{Dockerd: "/nowhere/dockerd"}})
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "install"),
		"without a dockerd: %v, want the advice to install an engine", err)
	env.Engine = "30-nonesuch"
	_, err = New(Options{Dir: t.TempDir(), Env: env})
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "29-containerd"),
		"unknown engine: %v, want the names of all engines", err)
}
