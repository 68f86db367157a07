package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/criadapter/criadapter/internal/testutil"
)

// logs -f on a terminal shows each line as it comes, goes on through a rotation, and ends with the container.
func TestCrictlLogsFollow(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	id := c.stdinContainer(p, "talks", nil, "sh", "-c",
		`echo to stderr >&2; while read line; do echo "got $line"; [ "$line" = end ] && exit 3; done`)
	log := filepath.Join(p.logDir, "talks.log")
	input := c.background("attach", "-i", id)
	follower := c.onTerminal("logs", "-f", id)
	follower.expect("to stderr")
	testutil.Eventually(t, func() error { // the client may attach a moment later
		input.say("one")
		time.Sleep(100 * time.Millisecond)
		if !strings.Contains(follower.stdout.String(), "got one\r\n") {
			return fmt.Errorf("no line is shown: %q", follower.stdout)
		}
		return nil
	})
	for i := range 3 { // as the kubelet rotates
		testutil.Must(t, os.Rename(log, fmt.Sprintf("%s.%d", log, i)))
		testutil.Must(t, c.server.Runtime.ReopenContainerLog(t.Context(), id))
		line := fmt.Sprint("after rotation ", i)
		input.say(line)
		follower.expect("got " + line + "\r\n")
	}
	late := c.onTerminal("logs", "-f", "--tail", "1", id)
	late.expect("got after rotation 2\r\n")
	input.say("end")
	for _, s := range []*session{follower, late} {
		s.expect("got end\r\n")
		same(t, "exit code of logs -f", s.wait(), 0)
	}
	for i := range 3 {
		n := strings.Count(follower.stdout.String(), fmt.Sprint("after rotation ", i))
		testutil.Assert(t, n == 1, "the line after rotation %d is shown %d times", i, n)
	}
	shown := late.stdout.String()
	testutil.Assert(t, !strings.Contains(shown, "got one") && !strings.Contains(shown, "rotation 1"),
		"the last line alone was asked for: %q", shown)
}

// A container does not start if its log cannot be written.
func TestLogPathTakenByADirectory(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	log := filepath.Join(p.logDir, "taken.log")
	testutil.Must(t, os.Mkdir(log, 0o755))
	id := c.run("create", "--with-pull", p.id, c.containerConfig("taken", shellImage, "echo", "hello"), p.config)
	err := c.server.Runtime.StartContainer(t.Context(), id)
	testutil.Assert(t, status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), log),
		"start: %v, want FailedPrecondition with the path", err)
	same(t, "state", inspect(c, id).Status.State, "CONTAINER_CREATED")
	testutil.Must(t, os.Remove(log))
	c.run("start", id)
	testutil.Eventually(t, func() error {
		text, err := os.ReadFile(log)
		if err == nil && !strings.HasSuffix(string(text), " stdout F hello\n") {
			err = fmt.Errorf("the log holds %q", text)
		}
		return err
	})
}

// A log has only the output of its own container, even if the first container of the pod has ended. The working
// directory of the containers' shim may be gone then.
func TestLogHasNoOutputOfTheRuntime(t *testing.T) {
	c := newCrictl(t)
	p := c.runPod()
	first := c.container(p, "first", shellImage, "sleep", "1000")
	c.container(p, "second", shellImage, "sleep", "1000")
	c.run("stop", "--timeout", "0", first)
	later := c.container(p, "later", shellImage, "echo", "hello")
	c.await(later, "CONTAINER_EXITED 0")
	same(t, "the log", c.try("logs", later), result{stdout: "hello\n"})
}
