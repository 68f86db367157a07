package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/adapter"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// Sessions cross a network in the clear only with an explicit setting.
func TestStreamingRefusesOtherAddressesInTheClear(t *testing.T) {
	env := rigenv.Require(t)
	server := adapter.NewForTest(t, adapter.Options{Env: env, Flags: []string{"--streaming-bind-addr=0.0.0.0:0"}})
	testutil.Must(t, server.Launch())
	testutil.Receive(t, server.Ended(), "the server runs")
	if log := server.LogTail(); server.ExitError() == nil || !strings.Contains(log, "is not a loopback address") {
		t.Errorf("the server ended with %v and logged %q", server.ExitError(), log)
	}
	adapter.ForTest(t,
		adapter.Options{Env: env, Flags: []string{"--streaming-bind-addr=0.0.0.0:0", "--streaming-allow-plaintext"}})
}

func TestStreamingOverTLS(t *testing.T) {
	cert, key := testutil.Certificate(t, t.TempDir(), "localhost")
	c := newCrictl(t, "--streaming-bind-addr=0.0.0.0:0", "--streaming-tls-cert-file="+cert,
		"--streaming-tls-private-key-file="+key)
	id := c.container(c.runPod(), "shell", shellImage, "sleep", "1000")
	response, err := c.server.Runtime.Exec(t.Context(),
		&runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"true"}, Stdout: true})
	testutil.Assert(t, err == nil && strings.HasPrefix(response.GetUrl(), "https://127.0.0.1:"),
		"URL %q, %v", response.GetUrl(), err)
	overTransports(t, func(t *testing.T, transport string) {
		same(t, "output", c.on(t).run("exec", transport, id, "echo", "over TLS"), "over TLS")
	})
}

// A session without traffic ends after the configured time, and its command with it. The time is less than the five
// seconds between two pings of crictl over SPDY, and a session with traffic lasts longer.
func TestStreamingIdleTimeout(t *testing.T) {
	c := newCrictl(t, "--streaming-connection-idle-timeout=3s")
	id := c.container(c.runPod(), "shell", shellImage, "sleep", "1000")
	overTransports(t, func(t *testing.T, transport string) {
		c := c.on(t)
		busy := c.background("exec", "-i", transport, id,
			"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done")
		testutil.Until(t, "the command has begun", func() bool {
			busy.say("still here") // the start of a command may take longer than the timeout
			time.Sleep(100 * time.Millisecond)
			return strings.Contains(busy.stdout.String(), "1\n")
		})
		silent := c.background("exec", transport, id, "sleep", "3000")
		silent.wait()
		c.awaitNoProcess(id, "sleep 3000")
		same(t, "exit code of a busy session", busy.wait(), 0)
		same(t, "its last line", strings.HasSuffix(busy.stdout.String(), "8\n"), true)
	})
}

// A URL is good for one request.
func TestStreamingURLIsForOneUse(t *testing.T) {
	c := newCrictl(t)
	id := c.container(c.runPod(), "shell", shellImage, "sleep", "1000")
	response, err := c.server.Runtime.Exec(t.Context(),
		&runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"true"}, Stdout: true})
	testutil.Must(t, err)
	for _, want := range []int{http.StatusBadRequest, http.StatusNotFound} { // the first is not an upgrade
		answer, err := http.Get(response.GetUrl())
		testutil.Must(t, err)
		_ = answer.Body.Close()
		same(t, "status", answer.StatusCode, want)
	}
}
