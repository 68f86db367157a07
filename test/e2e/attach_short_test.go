package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
)

// Two containers live 0 ms, two live 1 ms, and so on up to 20 ms. One container of each pair has an input. Each attach
// ends by itself. It brings the container's output, or says that the container does not run. In the second case the log
// has the output.
func TestAttachToShortContainers(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	c.run("pull", c.env.Image(shellImage))
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: p.name, Namespace: "e2e", Uid: p.name + "-uid", Attempt: 1},
		LogDirectory: p.logDir,
	}
	const lives = 21
	outcomes := map[string]int{}
	for i := range 2 * lives {
		line, name := fmt.Sprintf("line %d", i), fmt.Sprintf("short-%d", i)
		id, err := c.server.Runtime.CreateContainer(t.Context(), p.id, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name},
			Image:    &runtimeapi.ImageSpec{Image: c.env.Image(shellImage)},
			Command:  []string{"sh", "-c", fmt.Sprintf("echo %s; sleep 0.%03d", line, i%lives)},
			LogPath:  name + ".log",
			Stdin:    i%2 == 0,
			Linux:    &runtimeapi.LinuxContainerConfig{},
		}, config)
		testutil.Must(t, err)
		// crictl starts more slowly than the container ends, so it is called while the container starts.
		started := testutil.Go(func() error { return c.server.Runtime.StartContainer(t.Context(), id) })
		time.Sleep(time.Duration(i%10) * 20 * time.Millisecond)
		outcomes[c.attachToShort(id, line, i%2 == 0)]++
		testutil.Must(t, <-started)
		c.readsLog(id, line)
	}
	t.Log(outcomes)
	if outcomes["output"]+outcomes["refused"] != 2*lives { // the machine's speed decides how many are refused
		t.Errorf("%v", outcomes)
	}
}

// attachToShort attaches once the container runs, and returns the result.
func (c *crictl) attachToShort(id, line string, withInput bool) string {
	args := []string{"attach"}
	if withInput {
		args = append(args, "-i")
	}
	for deadline := time.Now().Add(testutil.Patience); time.Now().Before(deadline); {
		s := c.background(append(args, id)...)
		if s.wait(); s.cmd.ProcessState.Success() {
			if got := s.stdout.String(); strings.Count(got, line+"\n") != 1 {
				return fmt.Sprintf("wrote %q", got)
			}
			return "output"
		}
		said := s.stderr.String()
		switch {
		case strings.Contains(said, "failed precondition"): // the stream refuses: the container ended meanwhile
			return "refused"
		case !strings.Contains(said, "FailedPrecondition"):
			return said
		case !strings.Contains(said, "created") && !strings.Contains(said, "does not run"):
			return "refused"
		}
		if inspect(c, id).Status.State == "CONTAINER_EXITED" {
			return "refused"
		}
	}
	return "never ran"
}

// readsLog waits until crictl reads the line in the log, as kubectl does after a refused attach.
func (c *crictl) readsLog(id, line string) {
	c.t.Helper()
	testutil.Eventually(c.t, func() error {
		if r := c.try("logs", id); strings.TrimSpace(r.stdout) != line {
			return fmt.Errorf("logs: %+v", r)
		}
		return nil
	})
}
