package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/critest/build"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// crictl calls the program crictl on a server of this test's own.
type crictl struct {
	t      *testing.T
	server *adapter.Server
	env    rigenv.Env
	// program is crictl's path, and config its configuration file.
	program, config string
}

// newCrictl starts a server with these flags and points crictl at it.
func newCrictl(t *testing.T, flags ...string) *crictl {
	t.Helper()
	return newCrictlOn(t, rigenv.Require(t), flags...)
}

// newCrictlOn is newCrictl on the engine of env.
func newCrictlOn(t *testing.T, env rigenv.Env, flags ...string) *crictl {
	t.Helper()
	program, err := build.Crictl(t.Context(), runtime.GOARCH)
	testutil.Must(t, err)
	c := &crictl{t: t, server: adapter.ForTest(t, adapter.Options{Env: env, Flags: flags}), env: env, program: program}
	c.use(c.endpoint())
	return c
}

// use makes crictl call this CRI endpoint.
func (c *crictl) use(endpoint string) {
	c.t.Helper()
	c.config = c.write("crictl.yaml", map[string]any{
		"runtime-endpoint": endpoint, "image-endpoint": endpoint, "timeout": testutil.Patience.Seconds(),
	})
}

// endpoint is the server's address for crictl.
func (c *crictl) endpoint() string {
	c.t.Helper()
	endpoint, err := c.server.Clients()
	testutil.Must(c.t, err)
	return endpoint
}

// awaitOCIRuntime waits until the server has seen that criadapter-oci works. A request waits only some seconds for the
// check of criadapter-oci, which takes longer on a slow machine.
func (c *crictl) awaitOCIRuntime() {
	c.t.Helper()
	testutil.Until(c.t, "criadapter-oci works", func() bool {
		var info struct{ Engine docker.Features }
		c.read(&info, "info")
		return info.Engine.OCIRuntime.Works()
	})
}

// result is the outcome of one call of crictl.
type result struct {
	stdout, stderr string
	code           int
}

// try runs crictl, whatever its exit code.
func (c *crictl) try(args ...string) result {
	c.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := c.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	testutil.Require(c.t, err == nil || errors.As(err, &exit), "crictl %s: %v", strings.Join(args, " "), err)
	return result{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

// run runs crictl, which must succeed, and returns its output without surrounding space.
func (c *crictl) run(args ...string) string {
	c.t.Helper()
	r := c.try(args...)
	testutil.Require(c.t, r.code == 0,
		"crictl %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	return strings.TrimSpace(r.stdout)
}

// read runs crictl and decodes the JSON that it prints into v.
func (c *crictl) read(v any, args ...string) {
	c.t.Helper()
	output := c.run(args...)
	err := json.Unmarshal([]byte(output), v)
	testutil.Require(c.t, err == nil, "crictl %s: %v\n%s", strings.Join(args, " "), err, output)
}

// write stores v in the server's directory and returns the path. The file is JSON, which is valid YAML, too.
func (c *crictl) write(name string, v any) string {
	c.t.Helper()
	text, err := json.Marshal(v)
	testutil.Must(c.t, err)
	path := filepath.Join(c.server.Dir, name)
	testutil.Must(c.t, os.WriteFile(path, text, 0o644))
	return path
}

// pod is a pod that crictl runs. config is its configuration file, which crictl also needs to create containers.
type pod struct {
	id, name, config, logDir string
}

// runPod runs a pod with a unique name. The pod is stopped and removed when the test ends. flags are flags of crictl
// runp.
func (c *crictl) runPod(flags ...string) pod {
	c.t.Helper()
	name := rigenv.Unique(c.t.Name())
	p := pod{name: name, logDir: filepath.Join(c.server.Dir, "logs")}
	testutil.Must(c.t, os.MkdirAll(p.logDir, 0o755))
	p.config = c.write("pod.json", map[string]any{
		"metadata":      map[string]any{"name": name, "namespace": "e2e", "uid": name + "-uid", "attempt": 1},
		"hostname":      "e2e-host",
		"log_directory": p.logDir,
		"labels":        map[string]string{"suite": "e2e"},
		"annotations":   map[string]string{"e2e.example/note": "kept as it is"},
		"linux":         map[string]any{},
	})
	p.id = c.run(append(append([]string{"runp"}, flags...), p.config)...)
	c.removeAtTheEnd(p.id)
	return p
}

// removeAtTheEnd removes a pod when the test has ended.
func (c *crictl) removeAtTheEnd(podID string) {
	c.t.Cleanup(func() {
		// The commands have no context, because the test's own is over. A pod that is already gone is no error.
		for _, command := range []string{"stopp", "rmp"} {
			output, err := exec.Command(c.program, "--config", c.config, command, podID).CombinedOutput()
			if err != nil && !bytes.Contains(output, []byte("NotFound")) &&
				!bytes.Contains(output, []byte("not found")) {
				c.t.Errorf("crictl %s: %v\n%s", command, err, output)
			}
		}
	})
}

// container creates and starts a container of the pod and returns its id.
func (c *crictl) container(p pod, name, image string, command ...string) string {
	c.t.Helper()
	id := c.run("create", "--with-pull", p.id, c.containerConfig(name, image, command...), p.config)
	testutil.Equal(c.t, c.run("start", id), id, "start printed")
	return id
}

func (c *crictl) containerConfig(name, image string, command ...string) string {
	c.t.Helper()
	return c.write(name+".json", map[string]any{
		"metadata": map[string]any{"name": name, "attempt": 2},
		"image":    map[string]string{"image": c.env.Image(image)},
		"command":  command,
		"log_path": name + ".log",
		"labels":   map[string]string{"container": name},
		"linux":    map[string]any{},
	})
}

// same is testutil.Equal with the name first.
func same[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	testutil.Equal(t, got, want, "%s", what)
}
