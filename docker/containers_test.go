package docker

import (
	"context"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestGraceSeconds(t *testing.T) {
	for grace, want := range map[time.Duration]int{
		0: 0, -time.Second: 0, 1: 1, time.Second: 1, time.Second + 1: 2, 30 * time.Second: 30,
		math.MaxInt64: math.MaxInt32, math.MinInt64: 0,
	} {
		testutil.Equal(t, graceSeconds(grace), want, "%d ns", grace)
	}
}

// TestErrorTexts shows that an error names the request once, and then has the engine's own text.
func TestErrorTexts(t *testing.T) {
	f := newFakeServer(t)
	f.handle("POST /containers/x/start", answer(400, `{"message":"exec: \"sh\": executable file not found in $PATH"}`))
	f.handle("POST /images/create", answer(500, `{"message":"unauthorized: authentication required"}`))
	c := f.dial(0)
	for want, err := range map[string]error{
		`start container x: exec: "sh": executable file not found in $PATH`: c.StartContainer(testContext(t), "x"),
		`pull image r/x: unauthorized: authentication required`: c.PullImage(testContext(t), "r/x",
			PullOptions{}),
	} {
		testutil.Assert(t, err != nil && err.Error() == want, "got  %v\nwant %s", err, want)
	}
}

// TestCreateNamesThePlatform shows that only engines with the containerd image store get a platform. If the image lacks
// that platform, the request is repeated without it. Other errors are not retried.
func TestCreateNamesThePlatform(t *testing.T) {
	store := [][2]string{{"driver-type", "io.containerd.snapshotter.v1"}}
	const named, missing = "linux/amd64",
		`{"message":"image with reference x was found but does not provide the specified platform"}`
	for name, test := range map[string]struct {
		status [][2]string
		native int
		asked  []string
		fails  bool
	}{
		"an image of this platform": {store, http.StatusCreated, []string{named}, false},
		"an image of another one":   {store, http.StatusNotFound, []string{named, ""}, false},
		"a name that is taken":      {store, http.StatusConflict, []string{named}, true},
		"a graph driver":            {nil, http.StatusCreated, []string{""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.info.DriverStatus = test.status
			var asked []string
			f.handle("POST /containers/create", func(w http.ResponseWriter, r *http.Request) {
				platform := r.URL.Query().Get("platform")
				asked = append(asked, platform)
				if platform != "" && test.native != http.StatusCreated {
					answer(test.native, missing)(w, r)
					return
				}
				answer(http.StatusCreated, `{"Id":"x"}`)(w, r)
			})
			id, err := f.dial(0).CreateContainer(testContext(t),
				ContainerSpec{Name: "n", Config: &container.Config{Image: "x"}, Host: &container.HostConfig{}})
			testutil.Assert(t, (err != nil) == test.fails && id == "x" != test.fails && slices.Equal(asked, test.asked),
				"got %q, %v; asked for %q, want %q", id, err, asked, test.asked)
		})
	}
}

func TestStop(t *testing.T) {
	f := newFakeServer(t)
	status, asked := http.StatusNoContent, ""
	f.handle("POST /containers/x/stop", func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		w.WriteHeader(status)
	})
	c := f.dial(0)
	for _, status = range []int{http.StatusNoContent, http.StatusNotModified} {
		err := c.StopContainer(testContext(t), "x", 1500*time.Millisecond)
		testutil.Assert(t, err == nil && asked == "t=2", "status %d: asked with %q, got %v", status, asked, err)
	}
}

// TestStopOutlastsItsGrace shows that the grace period plus the request timeout bounds a stop.
func TestStopOutlastsItsGrace(t *testing.T) {
	const timeout = 2 * time.Second // enough for the other requests on a busy machine
	f := newFakeServer(t)
	c := f.dial(timeout)
	f.handle("POST /containers/x/stop", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(timeout + 200*time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})
	testutil.Check(t, c.StopContainer(testContext(t), "x", time.Minute), "within the grace period")
	f.handle("POST /containers/x/stop", f.hang())
	wantType(t, "past the bound", c.StopContainer(testContext(t), "x", 0), errdefs.ErrUnavailable)
}

// TestStopOutlivesItsCaller: a caller that leaves within the grace period does not shorten it.
func TestStopOutlivesItsCaller(t *testing.T) {
	outlivesItsCaller(t, "POST /containers/x/stop", func(ctx context.Context, c *Client) error {
		return c.StopContainer(ctx, "x", time.Minute)
	})
}

// TestRemove checks how RemoveContainer ends, also while another client's removal is under way.
func TestRemove(t *testing.T) {
	const forever = math.MaxInt64
	for name, c := range map[string]struct {
		conflicts int64
		then      int
		looks     int // the HTTP status of an inspect
		want      error
	}{
		"at once":                        {0, http.StatusNoContent, 0, nil},
		"not there":                      {0, http.StatusNotFound, 0, errdefs.ErrNotFound},
		"under way, then gone":           {3, http.StatusNotFound, 0, nil},
		"under way, fails, ours does it": {2, http.StatusNoContent, 0, nil},
		"under way for ever":             {forever, 0, http.StatusOK, errdefs.ErrUnavailable},
		"fails":                          {0, http.StatusInternalServerError, http.StatusOK, errdefs.ErrInternal},
		"fails, and its state is unknown": {0, http.StatusInternalServerError, http.StatusInternalServerError,
			errdefs.ErrInternal},
		"fails, but did it": {0, http.StatusInternalServerError, http.StatusNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			var calls atomic.Int64
			f.handle("DELETE /containers/x", func(w http.ResponseWriter, r *http.Request) {
				query := r.URL.Query()
				testutil.Assert(t, query.Get("force") == "1" && query.Get("v") == "1", "asked with %v", query)
				if calls.Add(1) <= c.conflicts {
					fail(w, http.StatusConflict, "removal of container x is already in progress")
					return
				}
				fail(w, c.then, "")
			})
			f.handle("GET /containers/x/json", answer(c.looks, "{}"))
			var limit time.Duration // zero is the client's default, enough for a busy machine
			if c.conflicts == forever {
				limit = 500 * time.Millisecond
			}
			err := f.dial(limit).RemoveContainer(testContext(t), "x")
			if c.want == nil && err != nil {
				t.Errorf("RemoveContainer: %v", err)
			} else if c.want != nil {
				wantType(t, "RemoveContainer", err, c.want)
			}
		})
	}
}

func TestRemoveEndsWithContext(t *testing.T) {
	f := newFakeServer(t)
	f.handle("DELETE /containers/x", answer(http.StatusConflict, `{"message":"already in progress"}`))
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	wantType(t, "RemoveContainer", f.dial(0).RemoveContainer(ctx, "x"), context.DeadlineExceeded)
}

// TestPathsStayInTheirKind shows that an id cannot reach another object of the API. The server answers requests for
// wrong paths with status 418, whose type is not ErrNotFound.
func TestPathsStayInTheirKind(t *testing.T) {
	f := newFakeServer(t)
	reached := func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusTeapot, "reached") }
	for _, path := range []string{"DELETE /images/x", "GET /images/x/json", "POST /containers/prune/start",
		"GET /info/json", "GET /exec/x/json"} {
		f.handle(path, reached)
	}
	c := f.dial(0)
	ctx := testContext(t)
	for _, id := range []string{"../images/x", "..", ".", "", "a/b", "a b", "a?b", "a%2fb", "ä", "\x00",
		"../containers/prune"} {
		wantType(t, "RemoveContainer "+id, c.RemoveContainer(ctx, id), errdefs.ErrNotFound)
		wantType(t, "StartContainer "+id, c.StartContainer(ctx, id), errdefs.ErrNotFound)
		wantType(t, "StopContainer "+id, c.StopContainer(ctx, id, 0), errdefs.ErrNotFound)
		_, err := c.InspectContainer(ctx, id)
		wantType(t, "InspectContainer "+id, err, errdefs.ErrNotFound)
		_, err = c.InspectExec(ctx, id)
		wantType(t, "InspectExec "+id, err, errdefs.ErrNotFound)
		_, err = c.AttachExec(ctx, id, ExecOptions{})
		wantType(t, "AttachExec "+id, err, errdefs.ErrNotFound)
	}
	for _, ref := range []string{"../containers/x", "..", "", "a b", "x/UPPER", "x:y:z", "x@sha256:short"} {
		_, err := c.InspectImage(ctx, ref)
		wantType(t, "InspectImage "+ref, err, errdefs.ErrInvalidArgument)
		wantType(t, "RemoveImage "+ref, c.RemoveImage(ctx, ref), errdefs.ErrInvalidArgument)
		wantType(t, "ForceRemoveImage "+ref, c.ForceRemoveImage(ctx, ref), errdefs.ErrInvalidArgument)
		wantType(t, "PullImage "+ref, c.PullImage(ctx, ref, PullOptions{}), errdefs.ErrInvalidArgument)
		wantType(t, "TagImage "+ref, c.TagImage(ctx, "x", ref), errdefs.ErrInvalidArgument)
	}
	wantType(t, "ForceRemoveImage of a name", c.ForceRemoveImage(ctx, "x:1"), errdefs.ErrInvalidArgument)
}
