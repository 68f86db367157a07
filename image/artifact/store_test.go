package artifact

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/internal/wholedir"
	"github.com/criadapter/criadapter/test/rig/artifacts"
)

// fixture is a store and a registry.
type fixture struct {
	*Store
	t    *testing.T
	host string
	// answer is called before the registry answers. It returns false if it has answered the request itself.
	answer func(http.ResponseWriter, *http.Request) bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, answer: func(http.ResponseWriter, *http.Request) bool { return true }}
	handler := registry.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.answer(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	f.host = strings.TrimPrefix(server.URL, "http://")
	f.open(filepath.Join(t.TempDir(), "artifacts"))
	return f
}

func (f *fixture) open(root string) {
	f.t.Helper()
	store, err := Open(f.t.Context(), Options{Root: root})
	testutil.Must(f.t, err)
	f.Store = store
}

func (f *fixture) push(content remote.Taggable, name string) {
	f.t.Helper()
	artifacts.Push(f.t, f.host+"/"+name, content)
}

func (f *fixture) pullNamed(name string) error {
	f.t.Helper()
	return f.pullWith(name, func() {})
}

func (f *fixture) pullWith(name string, progress func()) error {
	f.t.Helper()
	ref, err := reference.ParseDockerRef(f.host + "/" + name)
	testutil.Must(f.t, err)
	return f.pull(f.t.Context(), pull{ref: ref, arch: "amd64", progress: progress})
}

// content returns the files of an artifact, with their content.
func (f *fixture) content(ref string) string {
	f.t.Helper()
	a := f.find(ref)
	testutil.Require(f.t, a != nil, "the store lacks %s", ref)
	dir := f.t.TempDir()
	_, ok, err := f.Link(a.id.String(), dir)
	testutil.Require(f.t, ok && err == nil, "link %s: %t, %v", ref, ok, err)
	var all []string
	for _, file := range a.files {
		all = append(all, file.Path+"="+testutil.ReadFile(f.t, filepath.Join(dir, file.Path)))
	}
	return strings.Join(all, " ")
}

// entries returns the names in the store's directory.
func (f *fixture) entries() (names []string) {
	f.t.Helper()
	entries, err := os.ReadDir(f.root)
	testutil.Must(f.t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestPulledArtifactOutlivesARestart(t *testing.T) {
	f := newFixture(t)
	img := artifacts.New(t, artifacts.Empty, "a.txt", "hello", "d/b", "deep", "d/again", "hello")
	f.push(img, "x:1")
	testutil.Must(t, f.pullNamed("x:1"))
	id, err := img.Digest()
	testutil.Must(t, err)
	for range 2 {
		for _, ref := range []string{f.host + "/x:1", id.String(), id.Hex, f.host + "/x@" + id.String()} {
			testutil.Equal(t, f.content(ref), "a.txt=hello d/b=deep d/again=hello", "files of %s", ref)
		}
		testutil.Equal(t, f.ofPrefix(id.Hex[:6]).id.String(), id.String(), "artifact of a prefix")
		testutil.Assert(t, f.ofPrefix(id.Hex[:3]) == nil, "a prefix of three digits names an artifact")
		f.open(f.root)
	}
	testutil.Must(t, f.remove(f.find(id.String()).id))
	testutil.Equal(t, strings.Join(f.entries(), " "), "", "files after the removal")
}

func TestTagsMove(t *testing.T) {
	f := newFixture(t)
	first, second := artifacts.New(t, artifacts.Empty, "a", "1"), artifacts.New(t, artifacts.Empty, "a", "2")
	f.push(first, "x:1")
	f.push(first, "x:other")
	testutil.Must(t, f.pullNamed("x:1"))
	testutil.Must(t, f.pullNamed("x:other"))
	f.push(second, "x:1")
	testutil.Must(t, f.pullNamed("x:1"))
	for range 2 {
		testutil.Equal(t, f.content(f.host+"/x:1"), "a=2", "files of the moved tag")
		testutil.Equal(t, f.content(f.host+"/x:other"), "a=1", "files of the tag that stayed")
		f.open(f.root)
	}
	testutil.Must(t, f.untag(f.host+"/x:1"))
	testutil.Must(t, f.tag(f.find(f.host+"/x:other").id, f.host+"/y:new"))
	for range 2 {
		testutil.Assert(t, f.find(f.host+"/x:1") == nil, "the artifact keeps the removed tag")
		testutil.Equal(t, f.content(f.host+"/y:new"), "a=1", "files of a new tag")
		f.open(f.root)
	}
}

// The engine gets a tag that an artifact has, as after a pull of a signed image by its digest.
func TestTagMovesToTheEngine(t *testing.T) {
	f := newFixture(t)
	f.push(artifacts.New(t, artifacts.Empty, "a", "1"), "x:1")
	testutil.Must(t, f.pullNamed("x:1"))
	engine := dockertest.New(dockertest.Options{Images: []dockertest.Image{{Names: []string{"signed"}}}})
	t.Cleanup(engine.Close)
	e := Engine{Engine: engine, Store: f.Store}
	testutil.Must(t, e.TagImage(t.Context(), "signed", f.host+"/x:1"))
	inspect, err := e.InspectImage(t.Context(), f.host+"/x:1")
	testutil.Must(t, err)
	signed, err := e.InspectImage(t.Context(), "signed")
	testutil.Must(t, err)
	testutil.Equal(t, inspect.ID, signed.ID, "the image with the tag")
}

// TestSmallFilesAreProgress checks that each file of a pull counts as progress.
func TestSmallFilesAreProgress(t *testing.T) {
	f := newFixture(t)
	f.push(artifacts.New(t, artifacts.Empty, "a", "1", "b", "2", "c", "3"), "x:1")
	reports := 0
	testutil.Must(t, f.pullWith("x:1", func() { reports++ }))
	testutil.Assert(t, reports >= 3, "%d reports of progress for three files", reports)
}

// TestTagHasOneArtifactAfterAFailure has a pull that fails because the old artifact cannot lose its tag. No second
// artifact may get the tag.
func TestTagHasOneArtifactAfterAFailure(t *testing.T) {
	f := newFixture(t)
	f.push(artifacts.New(t, artifacts.Empty, "a", "1"), "x:1")
	testutil.Must(t, f.pullNamed("x:1"))
	f.push(artifacts.New(t, artifacts.Empty, "a", "2"), "x:1")
	dir, aside := f.find(f.host+"/x:1").dir, filepath.Join(t.TempDir(), "aside")
	testutil.Must(t, os.Rename(dir, aside))
	testutil.Assert(t, f.pullNamed("x:1") != nil, "the pull succeeded")
	testutil.Must(t, os.Rename(aside, dir))
	f.open(f.root)
	tagged := 0
	for _, a := range f.list() {
		tagged += len(a.Tags)
	}
	testutil.Assert(t, tagged == 1, "%d artifacts have the tag", tagged)
	testutil.Must(t, f.pullNamed("x:1"))
	testutil.Equal(t, f.content(f.host+"/x:1"), "a=2", "files after another pull")
}

// TestReadersDoNotWaitForAPull has a pull that waits for the disk. Each inspect of an image reads the store.
func TestReadersDoNotWaitForAPull(t *testing.T) {
	f := newFixture(t)
	f.push(artifacts.New(t, artifacts.Empty, "a", "1"), "x:1")
	testutil.Must(t, f.pullNamed("x:1"))
	raw, err := artifacts.New(t, artifacts.Empty, "a", "2").RawManifest()
	testutil.Must(t, err)
	making, err := wholedir.Make(f.root)
	testutil.Must(t, err)
	manifest := filepath.Join(making, manifestFile)
	testutil.Must(t, unix.Mkfifo(manifest, 0o600)) // a read of the manifest waits for a writer
	id := digest.FromBytes(raw)
	added := testutil.Go(func() error { return f.add(making, id, names{Tags: []string{f.host + "/x:1"}}) })
	var writer *os.File
	testutil.Eventually(t, func() (err error) {
		writer, err = os.OpenFile(filepath.Join(f.root, id.Encoded(), manifestFile), os.O_WRONLY|unix.O_NONBLOCK, 0)
		return err
	})
	old, dir := f.host+"/x:1", t.TempDir()
	read := testutil.Go(func() error {
		_, _, err := f.Link(f.find(old).id.String(), dir)
		return err
	})
	testutil.Must(t, testutil.Receive(t, read, "the store cannot be read during a pull"))
	testutil.Equal(t, testutil.ReadFile(t, filepath.Join(dir, "a")), "1", "the file during the pull")
	_, err = writer.Write(raw)
	testutil.Must(t, errors.Join(err, writer.Close()))
	testutil.Must(t, testutil.Receive(t, added, "the pull does not end"))
	testutil.Equal(t, f.find(old).id, id, "the artifact with the tag")
}

func TestArtifactOfAnIndex(t *testing.T) {
	f := newFixture(t)
	add := func(arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: artifacts.New(t, artifacts.Empty, "a", arch),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}}
	}
	index := mutate.AppendManifests(empty.Index, add("arm64"), add("amd64"))
	f.push(index, "x:1")
	testutil.Must(t, f.pullNamed("x:1"))
	named, err := index.Digest()
	testutil.Must(t, err)
	testutil.Equal(t, f.content(f.host+"/x@"+named.String()), "a=amd64", "files by the digest of the index")

	f.push(mutate.AppendManifests(empty.Index, add("arm64")), "x:1")
	testutil.Assert(t, errdefs.IsNotFound(f.pullNamed("x:1")), "an index without this architecture is pulled")
}

// TestFailedPullsLeaveNothing pulls from registries that send wrong content, or refuse, or end early.
func TestFailedPullsLeaveNothing(t *testing.T) {
	blob := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") || r.Method != http.MethodGet {
				return true
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return false
		}
	}
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request) bool
		want   error
	}{
		"another content":   {blob(200, "evil!"), nil},
		"a longer content":  {blob(200, strings.Repeat("x", 100)), nil},
		"a shorter content": {blob(200, "x"), nil},
		"a missing blob":    {blob(404, ""), errdefs.ErrNotFound},
		"a refusal":         {blob(403, ""), errdefs.ErrPermissionDenied},
		"a server's error":  {blob(501, ""), docker.ErrRegistryUnavailable},
		"a timeout":         {blob(408, ""), docker.ErrRegistryUnavailable},
		"a bad request":     {blob(400, ""), errdefs.ErrUnknown},
		"a bad method":      {blob(405, ""), errdefs.ErrUnknown},
		"an early end": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", "5")
			return blob(200, "hel")(w, r)
		}, docker.ErrRegistryUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.push(artifacts.New(t, artifacts.Empty, "a", "hello"), "x:1")
			f.answer = c.answer
			err := typed(t.Context(), f.pullNamed("x:1"))
			testutil.Assert(t, err != nil && (c.want == nil || errors.Is(err, c.want)), "got %v, want %v", err, c.want)
			away := errors.Is(err, docker.ErrRegistryUnavailable)
			testutil.Assert(t, away == (c.want == docker.ErrRegistryUnavailable), "the type of %v", err)
			testutil.Equal(t, strings.Join(f.entries(), " "), "", "files after the failure")
			f.answer = func(http.ResponseWriter, *http.Request) bool { return true }
			testutil.Must(t, f.pullNamed("x:1"))
			testutil.Equal(t, f.content(f.host+"/x:1"), "a=hello", "files after another pull")
		})
	}
}

func TestRegistryThatIsAway(t *testing.T) {
	f := newFixture(t)
	f.host = "127.0.0.1:1" // no registry has this port
	err := typed(t.Context(), f.pullNamed("x:1"))
	testutil.Assert(t, errors.Is(err, docker.ErrRegistryUnavailable), "a refused connection: %v", err)
	for err, want := range map[error]bool{
		&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}:              true,
		&url.Error{Op: "Get", Err: &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}}:                true,
		&url.Error{Op: "Get", Err: io.EOF}:                                                               true,
		&url.Error{Op: "Get", Err: &net.OpError{Op: "remote error", Err: errors.New("bad certificate")}}: false,
		&os.PathError{Op: "write", Err: unix.ENOSPC}:                                                     false,
		abortedStream(t): true,
		errors.New("http2: client connection lost"):                               true,
		errors.New("http2: server sent GOAWAY and closed the connection"):         true,
		errors.New("http2: Transport received Server's graceful shutdown GOAWAY"): true,
		errors.New("http2: response header list larger than advertised limit"):    false,
	} {
		away := errors.Is(typed(t.Context(), err), docker.ErrRegistryUnavailable)
		testutil.Assert(t, away == want, "%v: the registry is away: %t", err, away)
	}
}

// abortedStream is a client's error when an HTTP/2 server aborts its answer.
func abortedStream(t *testing.T) error {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	_, err := server.Client().Get(server.URL)
	testutil.Require(t, err != nil, "the server answers")
	return err
}

func TestImagesAreNotKept(t *testing.T) {
	f := newFixture(t)
	f.push(empty.Image, "x:1")
	testutil.Assert(t, errors.Is(f.pullNamed("x:1"), ErrNotArtifact), "an image is pulled as an artifact")
}

// TestDamagedArtifactIsPulledAgain opens a store with the remains of a crash and with damaged files.
func TestDamagedArtifactIsPulledAgain(t *testing.T) {
	f := newFixture(t)
	f.push(artifacts.New(t, artifacts.Empty, "a", "hello"), "x:1")
	testutil.Must(t, f.pullNamed("x:1"))
	dir := f.find(f.host + "/x:1").dir
	for _, remains := range []string{".making-1", ".removing-2"} {
		testutil.Must(t, os.MkdirAll(filepath.Join(f.root, remains, blobsDir), 0o700))
	}
	for _, file := range []string{manifestFile, namesFile} {
		testutil.WriteFile(t, filepath.Join(dir, file), "{")
		f.open(f.root)
		testutil.Equal(t, strings.Join(f.entries(), " "), filepath.Base(dir), "files after a restart")
		testutil.Assert(t, f.find(f.host+"/x:1") == nil, "an artifact with a damaged %s is listed", file)
		testutil.Must(t, f.pullNamed("x:1"))
		testutil.Equal(t, f.content(f.host+"/x:1"), "a=hello", "files after another pull")
	}
}
