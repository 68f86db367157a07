package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// rigContainer is a container on the real engine.
type rigContainer struct {
	t      *testing.T
	engine *docker.Client
	id     string
	source Source
}

// newRigContainer creates a container that runs a shell script.
func newRigContainer(t *testing.T, driver string, options map[string]string, tty bool, script string) *rigContainer {
	t.Helper()
	env := rigenv.Require(t)
	engine, err := docker.Dial(docker.Options{Host: env.DockerHost})
	testutil.Must(t, err)
	image := env.Image("test/busybox:latest")
	testutil.Must(t, engine.PullImage(t.Context(), image, docker.PullOptions{}))
	id, err := engine.CreateContainer(t.Context(), docker.ContainerSpec{
		Name:   fmt.Sprintf("logs-test-%d", time.Now().UnixNano()),
		Config: &container.Config{Image: image, Cmd: []string{"sh", "-c", script}, Tty: tty, NetworkDisabled: true},
		Host: &container.HostConfig{
			NetworkMode: "none",
			LogConfig:   container.LogConfig{Type: driver, Config: options},
		},
	})
	testutil.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
		defer cancel()
		if err := engine.RemoveContainer(ctx, id); err != nil && !errdefs.IsNotFound(err) {
			t.Error(err)
		}
	})
	dir := filepath.Join(env.DockerRoot, "containers", id)
	c := &rigContainer{t: t, engine: engine, id: id, source: Source{
		ContainerID: id,
		Driver:      driver,
		Path:        filepath.Join(dir, "local-logs", "container.log"),
		LogPath:     filepath.Join(t.TempDir(), "0.log"),
	}}
	if driver == DriverJSONFile {
		c.source.Path = filepath.Join(dir, id+"-json.log")
	}
	return c
}

func (c *rigContainer) start() {
	c.t.Helper()
	testutil.Must(c.t, c.engine.StartContainer(c.t.Context(), c.id))
}

// wait waits for the end of the container's process.
func (c *rigContainer) wait() {
	c.t.Helper()
	testutil.Eventually(c.t, func() error {
		inspect, err := c.engine.InspectContainer(c.t.Context(), c.id)
		if err == nil && inspect.State.Running {
			err = errors.New("it runs")
		}
		return err
	})
}

// log returns the CRI log without the times, one stream after the other. The order between the two streams varies,
// because the engine reads each stream in its own goroutine.
func (c *rigContainer) log() []string {
	_, lines := readCRI(c.t, c.source.LogPath)
	var sorted []string
	for _, stream := range []string{stdout, stderr} {
		for _, line := range lines {
			if strings.HasPrefix(line, stream) {
				sorted = append(sorted, line)
			}
		}
	}
	return sorted
}

const goldenScript = `
echo 'hello stdout'; echo 'hello stderr' >&2; echo
printf 'bad \377\200 utf8\n'; printf 'nul \000 inside\n'; printf 'crlf line\r\n'
head -c 40000 /dev/zero | tr '\000' a; echo
head -c 16384 /dev/zero | tr '\000' b; echo
head -c 16385 /dev/zero | tr '\000' c; echo
printf 'no newline at the end'`

func TestRigDrivers(t *testing.T) {
	for driver, badUTF8 := range map[string]string{DriverLocal: "\xff\x80", DriverJSONFile: "\ufffd\ufffd"} {
		t.Run(driver, func(t *testing.T) {
			c := newRigContainer(t, driver, map[string]string{"max-size": "10m", "max-file": "2", "compress": "false"},
				false, goldenScript)
			s := newService(t)
			start(t, s, c.source) // before the engine makes its log
			c.start()
			c.wait()
			drain(t, s, c.id)
			want := goldenLines(badUTF8)
			equalLines(t, c.log(), append(append(want[:1:1], want[2:]...), want[1]))
		})
	}
}

func TestRigTTY(t *testing.T) {
	c := newRigContainer(t, DriverLocal, map[string]string{"compress": "false"}, true,
		"echo out; echo err >&2; printf partial")
	s := newService(t)
	start(t, s, c.source)
	c.start()
	c.wait()
	drain(t, s, c.id)
	equalLines(t, c.log(), []string{"stdout F out\r", "stdout F err\r", "stdout P partial"})
}

// The engine rotates many times while the follower reads and criadapter is restarted. Every line arrives once and in
// order.
func TestRigRotationsAndRestarts(t *testing.T) {
	const lines, rounds = 20_000, 10
	// Bursts with pauses: a file of the engine holds more than one burst.
	script := fmt.Sprintf(
		`i=0; while [ $i -lt %d ]; do seq $((i+1)) $((i+%d)) | sed 's/$/ of some length/'; i=$((i+%d)); sleep `+
			`0.2; done`,
		lines, lines/rounds, lines/rounds)
	c := newRigContainer(t, DriverLocal,
		map[string]string{"max-size": "200k", "max-file": "3", "compress": "false", "mode": "blocking"}, false, script)
	saved := &positions{}
	c.source.Save = saved.save
	s := newService(t)
	start(t, s, c.source)
	c.start()
	for range rounds {
		time.Sleep(150 * time.Millisecond)
		s = restart(t, s)
		at := saved.get()
		c.source.Resume = &at
		start(t, s, c.source)
	}
	c.wait()
	drain(t, s, c.id)
	got := c.log()
	want := make([]string, lines)
	for i := range want {
		want[i] = fmt.Sprintf("stdout F %d of some length", i+1)
	}
	equalLines(t, got, want)
	_, err := os.Stat(c.source.Path + ".2")
	testutil.Assert(t, err == nil, "the engine has rotated its log too seldom for this test: %v", err)
}

// The engine deletes its log with the container: the follower ends by itself.
func TestRigContainerRemovedBehindOurBack(t *testing.T) {
	c := newRigContainer(t, DriverLocal, map[string]string{"compress": "false"}, false, "echo hello; sleep 100")
	s := newService(t)
	start(t, s, c.source)
	c.start()
	waitLines(t, c.source.LogPath, 1)
	testutil.Must(t, c.engine.RemoveContainer(t.Context(), c.id))
	awaitNoFollower(t, s, c.id)
	equalLines(t, c.log(), []string{"stdout F hello"})
}
