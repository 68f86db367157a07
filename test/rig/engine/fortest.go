package engine

import (
	"context"
	"os"
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
	var err error
	if opts.Dir == "" {
		opts.Dir, err = os.MkdirTemp(opts.Env.WorkDir, "e")
		testutil.Must(t, err)
	}
	e, err := New(opts)
	testutil.Must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout) // the test's own context has ended
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	testutil.Must(t, e.Start(t.Context()))
	return e
}

// Use returns env with this engine instead of its own.
func (e *Engine) Use(env rigenv.Env) rigenv.Env {
	env.DockerHost, env.DockerRoot = e.Host(), e.Root()
	return env
}
