package docker

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestCheckpoints gives the client answers that follow the API's description. The test machines' kernels do not support
// CRIU.
func TestCheckpoints(t *testing.T) {
	f := newFakeServer(t)
	asked := map[string]string{}
	for request, reply := range map[string]http.HandlerFunc{
		"POST /containers/x/pause":       answer(204, ""),
		"POST /containers/x/unpause":     answer(204, ""),
		"POST /containers/x/checkpoints": answer(201, ""),
		"POST /containers/x/start":       answer(204, ""),
		"GET /containers/x/changes":      answer(200, `[{"Path":"/etc","Kind":0},{"Path":"/etc/new","Kind":1},{"Path":"/tmp/old","Kind":2}]`),
		"PUT /containers/x/archive":      answer(200, ""),
		"POST /containers/y/checkpoints": answer(404, `{"message":"page not found"}`),
		"POST /containers/z/checkpoints": answer(500,
			`{"message":"Cannot checkpoint container z: runc did not terminate successfully: exit status 1: criu `+
				`failed: type NOTIFY errno 0"}`),
		"POST /containers/y/pause":   answer(409, `{"message":"Container y is already paused"}`),
		"POST /containers/y/unpause": answer(500, `{"message":"Container y is not paused"}`),
	} {
		f.handle(request, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked[request] = r.URL.RawQuery + string(body)
			reply(w, r)
		})
	}
	c, ctx := f.dial(0), testContext(t)
	for name, err := range map[string]error{
		"pause": c.PauseContainer(ctx, "x"), "unpause": c.UnpauseContainer(ctx, "x"),
		"checkpoint": c.CreateCheckpoint(ctx, "x", "/d", "n"), "restore": c.RestoreContainer(ctx, "x", "n"),
		"copy": c.CopyToContainer(ctx, "x", "/", strings.NewReader("tar")),
	} {
		testutil.Assert(t, err == nil, "%s: %v", name, err)
	}
	changes, err := c.ListChanges(ctx, "x")
	testutil.Assert(t, err == nil && len(changes) == 3 && changes[2].Path == "/tmp/old", "changes %v, %v", changes, err)
	for request, want := range map[string][]string{
		"POST /containers/x/checkpoints": {`"CheckpointID":"n"`, `"CheckpointDir":"/d"`, `"Exit":false`},
		"POST /containers/x/start":       {"checkpoint=n"},
		"PUT /containers/x/archive":      {"path=%2F", "tar"},
	} {
		for _, part := range want {
			testutil.Assert(t, strings.Contains(asked[request], part),
				"%s was asked with %q, want %s in it", request, asked[request], part)
		}
	}
	copied := asked["PUT /containers/x/archive"]
	testutil.Assert(t, !strings.Contains(copied, "copyUIDGID"), "the files get the container's user: %s", copied)
	wantType(t, "an engine without experimental features", c.CreateCheckpoint(ctx, "y", "/d", "n"), errdefs.ErrNotFound)
	wantType(t, "a kernel that CRIU does not run on", c.CreateCheckpoint(ctx, "z", "/d", "n"), errdefs.ErrInternal)
	wantType(t, "paused twice", c.PauseContainer(ctx, "y"), errdefs.ErrConflict)
	wantType(t, "not paused", c.UnpauseContainer(ctx, "y"), errdefs.ErrInternal)
	wantType(t, "no container", c.CreateCheckpoint(ctx, "", "/d", "n"), errdefs.ErrNotFound)
}
