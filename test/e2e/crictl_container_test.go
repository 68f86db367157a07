package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/speed"
)

// TestCrictlContainer follows a service from create to rm. The service answers on the pod's address, and crictl shows
// its true state after each step.
func TestCrictlContainer(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	image := c.env.Image("test/hello:latest")
	id := c.run("create", "--with-pull", p.id, c.containerConfig("hello", "test/hello:latest"), p.config)
	same(t, "state after create", inspect(c, id).Status.State, "CONTAINER_CREATED")
	c.run("start", id)

	running := inspect(c, id)
	got := running.Status
	same(t, "id", got.ID, id)
	same(t, "metadata", got.Metadata, metadata{Name: "hello", Attempt: 2})
	same(t, "state", got.State, "CONTAINER_RUNNING")
	same(t, "image", got.Image.Image, image)
	same(t, "log path", got.LogPath, filepath.Join(p.logDir, "hello.log"))
	same(t, "label", got.Labels["container"], "hello")
	same(t, "number of labels", len(got.Labels), 1)
	same(t, "image reference", got.ImageRef, findImage(t, c, image).RepoDigests[0])
	same(t, "image id", got.ImageID, findImage(t, c, image).ID)
	inOrder(t, got.CreatedAt, got.StartedAt)
	testutil.Assert(t, len(running.Info) != 0, "inspect has no verbose info")
	entry, ok := findContainer(c, id)
	testutil.Require(t, ok, "ps does not list the container")
	same(t, "listed pod", entry.PodSandboxID, p.id)
	same(t, "listed image id", entry.ImageID, got.ImageID)
	same(t, "listed state", entry.State, "CONTAINER_RUNNING")
	answers(t, c, p)

	c.run("stop", "--timeout", "10", id)
	got = inspect(c, id).Status
	same(t, "state after stop", got.State, "CONTAINER_EXITED")
	same(t, "exit code", got.ExitCode, 0)
	same(t, "reason", got.Reason, "Completed")
	inOrder(t, got.StartedAt, got.FinishedAt)
	_, ok = findContainer(c, id)
	testutil.Assert(t, !ok, "ps lists a container that has exited")
	c.run("rm", id)
	r := c.try("inspect", id)
	testutil.Assert(t, r.code != 0, "inspect after rm:\n%s", r.stdout)
}

// However a request names the image, image_ref is its name by digest, and image_id is the id from the pull.
func TestImageReferences(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	tagged := c.env.Image("test/hello:latest")
	c.run("pull", tagged)
	known := findImage(t, c, tagged)
	for i, ref := range []string{tagged, known.RepoDigests[0], known.ID} {
		pulled := known.ID
		if ref != known.ID { // no registry knows an id
			pulled = pull(t, c.server, ref)
		}
		config := map[string]any{
			"metadata": map[string]any{"name": fmt.Sprintf("by-reference-%d", i)},
			"image":    map[string]string{"image": ref},
			"linux":    map[string]any{},
		}
		status := inspect(c, c.run("create", p.id, c.write("reference.json", config), p.config)).Status
		same(t, "image reference of "+ref, status.ImageRef, known.RepoDigests[0])
		same(t, "image id of "+ref, status.ImageID, pulled)
	}
}

// A container that ends by itself with an error.
func TestCrictlExitCode(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "fails", "test/busybox:latest", "sh", "-c", "exit 7")
	c.await(id, "CONTAINER_EXITED 7")
	same(t, "reason", inspect(c, id).Status.Reason, "Error")
}

// exec -s brings both streams and the exit code, and ends a command at its time limit.
func TestCrictlExecSync(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "shell", "test/busybox:latest", "top", "-b", "-d", "3600")
	r := c.try("exec", "-s", id, "sh", "-c", "echo to stdout; echo to stderr >&2")
	// crictl prints both to stdout, one after the other, each with a line end of its own.
	same(t, "output", r.stdout, "to stdout\n\nto stderr\n\n")
	same(t, "exit code", r.code, 0)
	// For a failed command, crictl prints the exit code and the error output in a message of its own.
	r = c.try("exec", "-s", id, "sh", "-c", "echo complaint >&2; exit 3")
	testutil.Assert(t, r.code != 0 && strings.Contains(r.stderr, "exited with 3: complaint"),
		"failing command: crictl's exit code %d, stderr %q", r.code, r.stderr)
	same(t, "hostname", c.run("exec", "-s", id, "hostname"), "e2e-host")

	begin := time.Now()
	r = c.try("exec", "-s", "--timeout", "1", id, "sleep", "60")
	testutil.Assert(t, r.code != 0, "a command past its time limit succeeded")
	speed.Check(t, "a time limit of 1 s", time.Since(begin), 20*time.Second)
	c.awaitNoProcess(id, "sleep")
}

// TestCrictlLogs: crictl logs shows the CRI log to its last line. That line has no line feed, so the engine holds it
// back until the container ends.
func TestCrictlLogs(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "talks", "test/busybox:latest",
		"sh", "-c", "echo first; echo complaint >&2; printf 'no line end'")
	testutil.Eventually(t, func() error {
		r := c.try("logs", id)
		if strings.TrimSuffix(r.stdout, "\n") != "first\nno line end" || !strings.HasSuffix(r.stderr, "complaint\n") {
			return fmt.Errorf("logs: exit code %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
		}
		return nil
	})
	stamped := c.run("logs", "--timestamps", "--stream", "stdout", id)
	stamp, text, _ := strings.Cut(strings.Split(stamped, "\n")[0], " ")
	_, err := time.Parse(time.RFC3339Nano, stamp)
	testutil.Assert(t, err == nil, "time stamp of %q: %v", text, err)
}

// state returns a container's state and exit code.
func (c *crictl) state(id string) string {
	c.t.Helper()
	return c.run("inspect", "-o", "go-template", "--template", "{{.status.state}} {{.status.exitCode}}", id)
}

func (c *crictl) await(id, want string) {
	c.t.Helper()
	testutil.Eventually(c.t, func() error {
		if state := c.state(id); state != want {
			return fmt.Errorf("container %s is %s, want %s", id, state, want)
		}
		return nil
	})
}

// awaitNoProcess waits until no command line in a container has this text.
func (c *crictl) awaitNoProcess(id, text string) {
	c.t.Helper()
	testutil.Eventually(c.t, func() error {
		if all := c.run("exec", "-s", id, "ps"); strings.Contains(all, text) {
			return fmt.Errorf("a command goes on: %s", all)
		}
		return nil
	})
}

func inspect(c *crictl, id string) containerStatus {
	c.t.Helper()
	var status containerStatus
	c.read(&status, "inspect", "-o", "json", id)
	return status
}

// findContainer looks for a container in `crictl ps`, which lists running ones.
func findContainer(c *crictl, id string) (containerEntry, bool) {
	c.t.Helper()
	var list containerList
	c.read(&list, "ps", "-o", "json")
	for _, entry := range list.Containers {
		if entry.ID == id {
			return entry, true
		}
	}
	return containerEntry{}, false
}

// answers asks the hello service on the pod's address.
func answers(t *testing.T, c *crictl, p pod) {
	t.Helper()
	var status podStatus
	c.read(&status, "inspectp", "-o", "json", p.id)
	testutil.Eventually(t, func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+status.Status.Network.IP+":8080/", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		if string(body) != "hello from e2e-host\n" {
			return fmt.Errorf("the pod answers %q", body)
		}
		return nil
	})
}

// inOrder checks two times in the output of crictl: they are valid, and the second is not before the first.
func inOrder(t *testing.T, first, second string) {
	t.Helper()
	a, errA := time.Parse(time.RFC3339Nano, first)
	b, errB := time.Parse(time.RFC3339Nano, second)
	testutil.Assert(t, errA == nil && errB == nil && a.Year() >= 2000 && !b.Before(a), "times %q and %q", first, second)
}
