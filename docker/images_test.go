package docker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/sirupsen/logrus"

	"github.com/criadapter/criadapter/internal/testutil"
)

func TestListImages(t *testing.T) {
	f := newFakeServer(t)
	f.handle("GET /images/json", answer(200, `[{"Id":"a","RepoTags":["<none>:<none>"],"RepoDigests":["<none>@<none>"]},
		{"Id":"b","RepoTags":null,"RepoDigests":null},{"Id":"c","RepoTags":["x:1","<none>:<none>"],"RepoDigests":["x@sha256:1"]},
		{"Id":"d","RepoTags":["y@sha256:2"],"RepoDigests":["y@sha256:2"]},
		{"Id":"e","RepoTags":["z:1"],"RepoDigests":["z@sha256:3"]},{"Id":"e","RepoTags":["z:2"],"RepoDigests":["z@sha256:3"]}]`))
	images, err := f.dial(0).ListImages(testContext(t))
	testutil.Require(t, err == nil && len(images) == 5, "%v, %v", images, err)
	for i, want := range [][]string{{"|"}, {"|"}, {"x:1", "|", "x@sha256:1"}, {"|", "y@sha256:2"},
		{"z:1", "z:2", "|", "z@sha256:3"}} {
		got := slices.Concat(images[i].RepoTags, []string{"|"}, images[i].RepoDigests)
		testutil.Assert(t, slices.Equal(got, want), "image %s has the names %q", images[i].ID, got)
	}
}

// TestTidyNames has names of images as Docker Engine 29 lists them with the containerd image store.
func TestTidyNames(t *testing.T) {
	for name, c := range map[string]struct{ tags, digests, want []string }{
		"pulled by digest": {[]string{"x@sha256:1"}, []string{"x@sha256:1"}, []string{"|", "x@sha256:1"}},
		"of two repositories": {[]string{"x:1", "r.io/y:1", "x:2"}, []string{"x@sha256:1"},
			[]string{"x:1", "r.io/y:1", "x:2", "|", "x@sha256:1", "r.io/y@sha256:1"}},
		"of another platform":  {[]string{"x:1"}, []string{"sha256:1"}, []string{"x:1", "|", "x@sha256:1"}},
		"dangling":             {nil, []string{"x@sha256:1"}, []string{"|", "x@sha256:1"}},
		"with an invalid name": {[]string{"X Y"}, nil, []string{"X Y", "|"}},
	} {
		t.Run(name, func(t *testing.T) {
			tags, digests := tidyNames("sha256:1", c.tags, c.digests, true)
			got := slices.Concat(tags, []string{"|"}, digests)
			testutil.Assert(t, slices.Equal(got, c.want), "got %q, want %q", got, c.want)
		})
	}
}

// TestPullProgress checks that only a new message counts as progress. Engines with the containerd image store repeat
// messages, 20.10 does not.
func TestPullProgress(t *testing.T) {
	f := newFakeServer(t)
	messages := []string{
		`{"status":"Pulling from x","id":"1"}`,
		`{"status":"Pulling fs layer","progressDetail":{},"id":"a"}`,
		`{"status":"Pulling fs layer","progressDetail":{},"id":"b"}`,
		`{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"a"}`,
		`{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"b"}`,
		`{"status":"Downloading","progressDetail":{"current":30,"total":100},"id":"a"}`,
		`{"status":"Download complete","id":"a"}`,
		`{"status":"Extracting","progressDetail":{"current":1,"units":"s"},"id":"a"}`,
		`{"status":"Extracting","progressDetail":{"current":2,"units":"s"},"id":"a"}`,
		`{"status":"Pull complete","progressDetail":{},"id":"a"}`,
	}
	var stream strings.Builder
	for _, message := range messages {
		stream.WriteString(strings.Repeat(message+"\n", 3))
	}
	f.handle("POST /images/create", answer(200, stream.String()))
	signs := 0
	err := f.dial(0).PullImage(testContext(t), "x:1", PullOptions{Progress: func(PullPhase) { signs++ }})
	testutil.Assert(t, err == nil && signs == len(messages),
		"%d signs of progress, %v; want %d", signs, err, len(messages))
}

// TestPullErrors has the answers of Docker Engine 20.10 and later when a registry fails.
func TestPullErrors(t *testing.T) {
	inStream := func(message string) http.HandlerFunc {
		return answer(200,
			`{"status":"Pulling from x","id":"1"}`+"\n"+`{"errorDetail":{"message":`+message+`},"error":`+message+`}`)
	}
	refused := func(message string) http.HandlerFunc { return answer(500, `{"message":`+message+`}`) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
	}{
		"no manifest": {
			answer(404, `{"message":"manifest for x:1 not found: manifest unknown: Unknown manifest"}`),
			errdefs.ErrNotFound},
		"no repository": {answer(404, `{"message":"repository x not found: name unknown: Unknown name"}`),
			errdefs.ErrNotFound},
		"an artifact": {inStream(`"unsupported media type application/vnd.oci.empty.v1+json"`),
			ErrMediaType},
		"no such platform": {inStream(`"no matching manifest for linux/amd64 in the manifest list entries"`),
			errdefs.ErrNotFound},
		"access denied": {
			answer(404,
				`{"message":"pull access denied for x, repository does not exist or may require 'docker login'"}`),
			errdefs.ErrNotFound},
		"no credentials": {refused(`"Head \"http://r/v2/x/manifests/1\": no basic auth credentials"`),
			errdefs.ErrUnauthenticated},
		"wrong password": {refused(`"unauthorized"`), errdefs.ErrUnauthenticated},
		"unauthorized":   {refused(`"unauthorized: authentication required"`), errdefs.ErrUnauthenticated},
		"401": {
			refused(
				`"failed to resolve reference \"r/x:1\": unexpected status from HEAD request to ` +
					`http://r/v2/x/manifests/1: 401 Unauthorized"`), errdefs.ErrUnauthenticated},
		"denied": {refused(`"denied: requested access to the resource is denied"`),
			errdefs.ErrPermissionDenied},
		"rate limit": {refused(`"toomanyrequests: You have reached your pull rate limit."`),
			errdefs.ErrResourceExhausted},
		"refused": {
			refused(`"Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused"`),
			ErrRegistryUnavailable},
		"no such host": {refused(`"Get \"https://r/v2/\": dial tcp: lookup r on 10.0.0.1:53: no such host"`),
			ErrRegistryUnavailable},
		"no network": {
			refused(
				`"Get \"https://r/v2/\": dial tcp: lookup r on 10.0.0.1:53: dial udp 10.0.0.1:53: connect: ` +
					`network is unreachable"`), ErrRegistryUnavailable},
		"503": {refused(`"received unexpected HTTP status: 503 Service Unavailable"`),
			ErrRegistryUnavailable},
		"silent": {
			refused(
				`"Get \"https://r/v2/\": net/http: request canceled while waiting for connection (Client.Timeout ` +
					`exceeded while awaiting headers)"`), ErrRegistryUnavailable},
		"cut in the stream": {inStream(`"read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer"`),
			ErrRegistryUnavailable},
		"blob missing": {
			inStream(`"error pulling image configuration: download failed after attempts=1: unknown blob"`),
			errdefs.ErrUnknown},
		"blob corrupt": {inStream(`"filesystem layer verification failed for digest sha256:1"`), errdefs.ErrUnknown},
		"document": {
			refused(`"unknown: {\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\",\"message\":\"Unknown manifest\"}]}"`),
			errdefs.ErrNotFound},
		"other document":  {refused(`"unknown: {\"errors\":[{\"code\":\"BLOB_UNKNOWN\"}]}"`), errdefs.ErrUnknown},
		"broken document": {refused(`"unknown: {\"errors\":["`), errdefs.ErrUnknown},
		"empty document":  {refused(`"unknown: {\"errors\":[]}"`), errdefs.ErrUnknown},
		"with a code":     {answer(200, `{"errorDetail":{"code":404,"message":"gone"}}`), errdefs.ErrNotFound},
		"with code 500": {answer(200, `{"errorDetail":{"code":500,"message":"unauthorized: x"}}`),
			errdefs.ErrUnauthenticated},
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "999")
			_, _ = w.Write([]byte(`{"status":"Pulling"}`))
		}, errdefs.ErrUnavailable},
		"not JSON": {answer(200, `<html>`), errdefs.ErrInternal},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.handle("POST /images/create", c.answer)
			client := f.dial(0)
			err := client.PullImage(testContext(t), "x:1", PullOptions{})
			wantType(t, "PullImage", err, c.want)
			if errors.Is(err, ErrRegistryUnavailable) && (errdefs.IsUnavailable(err) || client.current.Load() == nil) {
				t.Errorf("%v blames the engine for the registry", err)
			}
			testutil.Assert(t, errors.Is(c.want, errdefs.ErrInternal) || !errdefs.IsInternal(err),
				"%v has two error types", err)
		})
	}
}

// TestHasChildren has the conflicts of a removal by force or by name in moby's daemon/images/image_delete.go and
// daemon/containerd/image_delete.go. The texts are the same in Docker Engine 20.10, 23, 25, 28 and 29.
func TestHasChildren(t *testing.T) {
	const (
		id   = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		hard = "conflict: unable to delete 0123456789ab (cannot be forced) - "
		soft = "conflict: unable to delete 0123456789ab (must be forced) - "
	)
	for name, c := range map[string]struct {
		status int
		text   string
		want   bool
	}{
		"children":             {409, hard + "image has dependent child images", true},
		"a running container":  {409, hard + "image is being used by running container 1", false},
		"a stopped container":  {409, soft + "image is being used by stopped container 1", false},
		"several repositories": {409, soft + "image is referenced in multiple repositories", false},
		"a container's image":  {409, soft + "container 1 is using its referenced image 0123456789ab", false},
		"another error":        {500, "image has dependent child images", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.handle("DELETE /images/"+id, func(w http.ResponseWriter, _ *http.Request) { fail(w, c.status, c.text) })
			err := f.dial(0).ForceRemoveImage(testContext(t), id)
			testutil.Assert(t, err != nil && HasChildren(err) == c.want, "HasChildren(%v) is %t", err, HasChildren(err))
		})
	}
}

// TestPullAuth checks that the engine gets the credentials, and that errors and logs do not hold them.
func TestPullAuth(t *testing.T) {
	var log bytes.Buffer
	logrus.SetOutput(&log)
	logrus.SetLevel(logrus.TraceLevel)
	defer func() {
		logrus.SetOutput(io.Discard)
		logrus.SetLevel(logrus.InfoLevel)
	}()
	f := newFakeServer(t)
	f.handle("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		auth, err := authconfig.Decode(r.Header.Get("X-Registry-Auth"))
		testutil.Assert(t, err == nil && auth.Username == "me" && auth.Password == "geheim" &&
			auth.IdentityToken == "geheim2" && auth.RegistryToken == "geheim3" && auth.ServerAddress == "r.example",
			"got %+v, %v", auth, err)
		query := r.URL.Query()
		testutil.Assert(t, query.Get("fromImage") == "r.example/x" && query.Get("tag") == "1", "asked for %v", query)
		fail(w, http.StatusInternalServerError, "unauthorized")
	})
	err := f.dial(0).PullImage(testContext(t), "r.example/x:1", PullOptions{Auth: &Auth{
		Username: "me", Password: "geheim", IdentityToken: "geheim2", RegistryToken: "geheim3",
		ServerAddress: "r.example",
	}})
	wantType(t, "PullImage", err, errdefs.ErrUnauthenticated)
	testutil.Assert(t, !strings.Contains(err.Error(), "geheim") && !strings.Contains(log.String(), "geheim"),
		"a secret leaks into %q or %q", err, log.String())
}

func TestPullWithoutAuth(t *testing.T) {
	f := newFakeServer(t)
	f.handle("POST /images/create", func(w http.ResponseWriter, r *http.Request) {
		testutil.Equal(t, r.Header.Get("X-Registry-Auth"), "", "sent")
		w.WriteHeader(http.StatusOK)
	})
	testutil.Check(t, f.dial(0).PullImage(testContext(t), "x", PullOptions{}))
}

func TestLoad(t *testing.T) {
	f := newFakeServer(t)
	var got string
	f.handle("POST /images/load", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		_, _ = io.WriteString(w, `{"stream":"Loaded image: x:1\n"}`)
	})
	c := f.dial(0)
	err := c.LoadImage(testContext(t), strings.NewReader("archive"))
	testutil.Assert(t, err == nil && got == "archive", "the engine got %q, the caller %v", got, err)
	f.handle("POST /images/load", answer(200, `{"stream":"Loading"}{"errorDetail":{"message":"unexpected EOF"}}`))
	err = c.LoadImage(testContext(t), strings.NewReader("x"))
	testutil.Assert(t, err != nil && strings.Contains(err.Error(), "unexpected EOF"),
		"an error in the stream became %v", err)
}

// brokenReader fails at the first read.
type brokenReader struct{ err error }

func (r *brokenReader) Read(p []byte) (int, error) {
	return 0, r.err
}

// TestPullQueued checks that a pull counts as queued only while none of its layers is in progress.
func TestPullQueued(t *testing.T) {
	var stream strings.Builder
	var want []PullPhase
	for _, step := range []struct {
		message string
		phase   PullPhase
	}{
		{`{"status":"Pulling from x","id":"1"}`, PullMoves},
		{`{"status":"Already exists","progressDetail":{},"id":"a"}`, PullMoves},
		{`{"status":"Pulling fs layer","progressDetail":{},"id":"b"}`, PullMoves},
		{`{"status":"Pulling fs layer","progressDetail":{},"id":"c"}`, PullMoves},
		{`{"status":"Waiting","progressDetail":{},"id":"c"}`, PullMoves},
		{`{"status":"Waiting","progressDetail":{},"id":"b"}`, PullQueued},
		{`{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"c"}`, PullMoves},
		{`{"status":"Retrying in 5 seconds","progressDetail":{},"id":"c"}`, PullMoves},
		{`{"status":"Verifying Checksum","progressDetail":{},"id":"c"}`, PullMoves},
		{`{"status":"Download complete","progressDetail":{},"id":"c"}`, PullQueued},
		{`{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"b"}`, PullMoves},
		{`{"status":"Download complete","progressDetail":{},"id":"b"}`, PullMoves},
		{`{"status":"Extracting","progressDetail":{"current":1,"total":100},"id":"b"}`, PullMoves},
		{`{"status":"Pull complete","progressDetail":{},"id":"b"}`, PullMoves},
	} {
		stream.WriteString(step.message)
		want = append(want, step.phase)
	}
	var got []PullPhase
	err := followTransfer(decodeMessages(strings.NewReader(stream.String())), newTransferred(Features{}),
		func(phase PullPhase) { got = append(got, phase) })
	testutil.Assert(t, err == nil && slices.Equal(got, want), "phases: %v, %v, want %v", got, err, want)
}

// TestPullQueuedSilently has the stream of an engine with the containerd image store. It reports nothing until the pull
// has a download slot.
func TestPullQueuedSilently(t *testing.T) {
	f := newFakeServer(t)
	f.change(func() { f.apiVersion = "1.48" })
	f.change(func() { f.info.DriverStatus = [][2]string{{"driver-type", "io.containerd.snapshotter.v1"}} })
	f.handle("POST /images/create", answer(200, `{"status":"Pulling from x","id":"1"}
		{"status":"Pulling fs layer","progressDetail":{},"id":"b"}
		{"status":"Downloading","progressDetail":{"current":10,"total":100},"id":"b"}
		{"status":"Download complete","progressDetail":{"hidecounts":true},"id":"b"}
		{"status":"Extracting","progressDetail":{"current":1,"units":"s"},"id":"b"}
		{"status":"Pull complete","progressDetail":{"hidecounts":true},"id":"b"}`))
	var got []PullPhase
	err := f.dial(0).PullImage(testContext(t), "x:1",
		PullOptions{Progress: func(phase PullPhase) { got = append(got, phase) }})
	want := []PullPhase{PullQueued, PullQueued, PullMoves, PullMoves, PullQueued, PullMoves, PullQueued}
	testutil.Assert(t, err == nil && slices.Equal(got, want), "phases: %v, %v, want %v", got, err, want)
}

// TestPullUnpacksSilently has the streams of Docker Engine 24 and 27 with the containerd image store. They report
// nothing between the last download and the end of the pull.
func TestPullUnpacksSilently(t *testing.T) {
	const m, q, u = PullMoves, PullQueued, PullUnpacks
	for name, c := range map[string]struct {
		apiVersion, stream string
		want               []PullPhase
	}{
		"27": {"1.47", `{"status":"Pulling from library/x","id":"1"}
			{"status":"Pulling fs layer","progressDetail":{},"id":"a"}
			{"status":"Pulling fs layer","progressDetail":{},"id":"b"}
			{"status":"Already exists","progressDetail":{"hidecounts":true},"id":"a"}
			{"status":"Downloading","progressDetail":{"current":1048576,"total":3145728},"id":"b"}
			{"status":"Downloading","progressDetail":{"current":1048576,"total":3145728},"id":"b"}
			{"status":"Downloading","progressDetail":{"current":3145728,"total":3145728},"id":"b"}
			{"status":"Download complete","progressDetail":{"hidecounts":true},"id":"b"}
			{"status":"Digest: sha256:1"}
			{"status":"Status: Downloaded newer image for x:1"}`, []PullPhase{q, q, u, u, m, m, m, u, u, u}},
		"27 with all layers there": {"1.47", `{"status":"Pulling from library/x","id":"1"}
			{"status":"Pulling fs layer","progressDetail":{},"id":"a"}
			{"status":"Pulling fs layer","progressDetail":{},"id":"b"}`, []PullPhase{q, q, u, u}},
		"24": {"1.43", `{"status":"Download complete","progressDetail":{"hidecounts":true},"id":"manifest"}
			{"status":"Downloading","progressDetail":{"total":3145728},"id":"a"}
			{"status":"Download complete","progressDetail":{"hidecounts":true},"id":"a"}`, []PullPhase{q, u, m, u}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeServer(t)
			f.change(func() {
				f.apiVersion = c.apiVersion
				f.info.DriverStatus = [][2]string{{"driver-type", "io.containerd.snapshotter.v1"}}
			})
			f.handle("POST /images/create", answer(200, c.stream))
			var got []PullPhase
			err := f.dial(0).PullImage(testContext(t), "x:1",
				PullOptions{Progress: func(phase PullPhase) { got = append(got, phase) }})
			testutil.Assert(t, err == nil && slices.Equal(got, c.want), "phases: %v, %v, want %v", got, err, c.want)
		})
	}
}

// TestLoadBrokenArchive checks that a broken archive is not reported as a broken connection.
func TestLoadBrokenArchive(t *testing.T) {
	f := newFakeServer(t)
	f.handle("POST /images/load", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) })
	c := f.dial(0)
	cause := errors.New("disk on fire")
	err := c.LoadImage(testContext(t), io.MultiReader(strings.NewReader("begin"), &brokenReader{cause}))
	wantType(t, "LoadImage", err, cause)
	wantType(t, "LoadImage", err, errdefs.ErrInvalidArgument)
	testutil.Assert(t, c.current.Load() != nil, "the client drops its connection")
}

// TestSaveToAFullDisk checks that the error of a file is not reported as a broken connection.
func TestSaveToAFullDisk(t *testing.T) {
	f := newFakeServer(t)
	f.handle("GET /images/x:1/json", answer(200, `{"Id":"x"}`))
	f.handle("GET /images/get", answer(200, "archive"))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	testutil.Must(t, err)
	defer full.Close()
	c := f.dial(0)
	err = c.SaveImage(testContext(t), "x:1", full)
	wantType(t, "SaveImage", err, syscall.ENOSPC)
	wantType(t, "SaveImage", err, errdefs.ErrInternal)
	testutil.Assert(t, c.current.Load() != nil, "the client drops its connection")
}

func FuzzTransfer(f *testing.F) {
	f.Add([]byte(`{"status":"Downloading","progressDetail":{"current":10},"id":"a"}{"status":"Downloading","progressDetail":{"current":9223372036854775807},"id":"b"}`))
	f.Add([]byte(`{"errorDetail":{"code":401,"message":"unauthorized"}}`))
	f.Add([]byte(`{"errorDetail":{"code":-1}}`))
	f.Add([]byte(`{"status":"Downloading","progressDetail":{"current":-5},"id":""}`))
	f.Add([]byte(`[`))
	f.Add([]byte(`null null`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		signs := 0
		err := followTransfer(decodeMessages(bytes.NewReader(stream)), newTransferred(Features{}), func(PullPhase) {
			signs++
		})
		messages := 0
		for range decodeMessages(bytes.NewReader(stream)) {
			messages++
		}
		testutil.Assert(t, signs <= messages, "%d signs of progress in %d messages", signs, messages)
		testutil.Assert(t, err == nil || typed(context.Background(), op{verb: "pull image", object: "x"}, err) != nil,
			"typed drops an error")
	})
}

func FuzzRegistryError(f *testing.F) {
	f.Add("unauthorized", 0)
	f.Add("x: no basic auth credentials", 404)
	f.Add(`unknown: {"errors":[{"code":"DENIED"}]}`, 0)
	f.Fuzz(func(t *testing.T, message string, code int) {
		err := transferError(&jsonstream.Error{Code: code, Message: message})
		testutil.Assert(t, hasType(err) && strings.Contains(err.Error(), message), "%q became %v", message, err)
	})
}

func FuzzTidyNames(f *testing.F) {
	f.Add("a:1 a@sha256:1", "a@sha256:1 <none>@<none>")
	f.Add("<none>:<none>", "")
	f.Fuzz(func(t *testing.T, tags, digests string) {
		gotTags, gotDigests := tidyNames("sha256:1", strings.Fields(tags), strings.Fields(digests), true)
		for _, tag := range gotTags {
			testutil.Assert(t, !strings.Contains(tag, "@"), "the digest %q is among the tags", tag)
		}
		for _, names := range [][]string{gotTags, gotDigests} {
			testutil.Assert(t, len(slices.Compact(slices.Sorted(slices.Values(names)))) == len(names),
				"%q has doubles", names)
		}
		againTags, againDigests := tidyNames("sha256:1", gotTags, gotDigests, true)
		testutil.Assert(t, slices.Equal(againTags, gotTags) && slices.Equal(againDigests, gotDigests),
			"not stable: %q %q, then %q %q", gotTags, gotDigests, againTags, againDigests)
	})
}
