package image

import (
	"context"
	"errors"
	"testing"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestPullsAreObserved(t *testing.T) {
	engine := dockertest.New(dockertest.Options{Registry: []dockertest.Image{{Names: []string{"a"}}}})
	defer engine.Close()
	begun, over := 0, []error(nil)
	s := newService(t, Options{Engine: engine, ObservePull: func(ctx context.Context) (context.Context, func(error)) {
		begun++
		return ctx, func(err error) { over = append(over, err) }
	}})
	_, err := s.Pull(t.Context(), spec("a"), nil)
	testutil.Must(t, err)
	testutil.Assert(t, begun == 1 && len(over) == 1 && over[0] == nil, "%d begun, ends: %v", begun, over)
	broken := errors.New("broken")
	engine.Inject("PullImage", dockertest.Fault{Err: broken})
	if _, err := s.Pull(t.Context(), spec("a"), nil); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	testutil.Assert(t, begun == 2 && len(over) == 2 && errors.Is(over[1], broken), "%d begun, ends: %v", begun, over)
	_, err = s.Pull(t.Context(), spec("not a reference"), nil)
	testutil.Assert(t, err != nil && begun == 2, "%v; a pull that is refused without a transfer was observed", err)
}
