package engine

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// closeTimeout bounds the end of one test's engine.
const closeTimeout = time.Minute

// ForTest starts an engine for the duration of a test. Without Options.Dir it makes a directory, which the rig removes.
func ForTest(t testing.TB, opts Options) *Engine {
	t.Helper()
	e := newForTest(t, opts)
	testutil.Must(t, e.Start(t.Context()))
	return e
}

// newForTest is ForTest without starting the engine.
func newForTest(t testing.TB, opts Options) *Engine {
	t.Helper()
	e, err := newInWorkDir(opts)
	testutil.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout) // the test's own context has ended
		defer cancel()
		testutil.Check(t, e.Close(ctx))
	})
	return e
}

// Docker runs the docker command on the engine at host. It returns the output without surrounding space. A failure ends
// the test.
func Docker(t testing.TB, host string, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "docker", append([]string{"--host", host}, args...)...)
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	testutil.Require(t, err == nil, "docker %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	return strings.TrimSpace(string(output))
}

// Use returns env with this engine instead of its own.
func (e *Engine) Use(env rigenv.Env) rigenv.Env {
	env.DockerHost, env.DockerRoot = e.Host(), e.Root()
	return env
}
