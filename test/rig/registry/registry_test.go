package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/criadapter/criadapter/internal/testutil"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// start serves one image as some/image:v1 and returns the path of its layer below /v2/, and the layer's content.
func start(t *testing.T) (r *Registry, layerPath string, content []byte) {
	t.Helper()
	image, err := random.Image(3*rigenv.SlowPiece, 1)
	testutil.Must(t, err)
	if r, err = Start(t.Context(), map[string]v1.Image{"some/image:v1": image}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testutil.Check(t, r.Close())
	})
	layers, err := image.Layers()
	testutil.Must(t, err)
	digest, err := layers[0].Digest()
	testutil.Must(t, err)
	blob, err := layers[0].Compressed()
	testutil.Must(t, err)
	defer blob.Close()
	if content, err = io.ReadAll(blob); err != nil {
		t.Fatal(err)
	}
	return r, "some/image/blobs/" + digest.String(), content
}

// get fetches a path. err is an error in reading the body.
func get(t *testing.T, ctx context.Context, addr, path string, edit ...func(*http.Request)) (status int, body []byte,
	err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/v2/"+path, nil)
	testutil.Must(t, err)
	for _, f := range edit {
		f(req)
	}
	resp, err := http.DefaultClient.Do(req)
	testutil.Must(t, err)
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func TestServesImages(t *testing.T) {
	r, layer, content := start(t)
	status, body, err := get(t, t.Context(), r.Addr, layer)
	testutil.Assert(t, status == 200 && string(body) == string(content) && err == nil, "layer: status %d, %d bytes, %v",
		status, len(body), err)
	status, _, _ = get(t, t.Context(), r.Addr, "some/image/manifests/v1")
	testutil.Assert(t, status == 200, "manifest: status %d", status)
	status, _, _ = get(t, t.Context(), r.Addr, "some/image/manifests/v2")
	testutil.Assert(t, status == 404, "manifest that is not there: status %d", status)
}

func TestPartsOfBlobs(t *testing.T) {
	r, layer, content := start(t)
	part := func(want string) func(*http.Request) {
		return func(req *http.Request) { req.Header.Set("Range", want) }
	}
	for want, bytes := range map[string][]byte{"bytes=0-": content, "bytes=100-": content[100:],
		"bytes=5-9": content[5:10]} {
		status, body, err := get(t, t.Context(), r.Addr, layer, part(want))
		testutil.Assert(t, status == http.StatusPartialContent && string(body) == string(bytes) && err == nil,
			"%s: status %d, %d bytes, %v", want, status, len(body), err)
	}
	status, _, _ := get(t, t.Context(), r.Addr, layer, part("bytes=9999999-"))
	testutil.Assert(t, status == http.StatusRequestedRangeNotSatisfiable, "a part beyond the end: status %d", status)
	status, _, _ = get(t, t.Context(), r.Addr, layer+"0", part("bytes=0-"))
	testutil.Assert(t, status >= 400, "a part of a blob that is not there: status %d", status)
}

func TestAccount(t *testing.T) {
	r, _, _ := start(t)
	account := func(user, password string) func(*http.Request) {
		return func(req *http.Request) { req.SetBasicAuth(user, password) }
	}
	for _, path := range []string{"", "some/image/manifests/v1"} {
		status, _, _ := get(t, t.Context(), r.AuthAddr, path)
		testutil.Assert(t, status == 401, "%q without an account: status %d", path, status)
		status, _, _ = get(t, t.Context(), r.AuthAddr, path, account(rigenv.RegistryUser, "wrong"))
		testutil.Assert(t, status == 401, "%q with a wrong password: status %d", path, status)
		status, _, _ = get(t, t.Context(), r.AuthAddr, path, account(rigenv.RegistryUser, rigenv.RegistryPassword))
		testutil.Assert(t, status == 200, "%q with the account: status %d", path, status)
	}
}

func TestTroubledManifests(t *testing.T) {
	r, _, _ := start(t)
	for prefix, want := range map[string]int{
		rigenv.PrefixSlow: 200, rigenv.PrefixStalled: 200, rigenv.PrefixCorrupt: 200, rigenv.PrefixNoBlobs: 200,
		rigenv.PrefixUnavailable: 503, rigenv.PrefixLimited: 429, rigenv.PrefixForbidden: 403,
	} {
		status, _, _ := get(t, t.Context(), r.Addr, prefix+"/some/image/manifests/v1")
		testutil.Assert(t, status == want, "%s: status %d, want %d", prefix, status, want)
	}
}

func TestCorruptBlob(t *testing.T) {
	r, layer, content := start(t)
	_, body, err := get(t, t.Context(), r.Addr, rigenv.PrefixCorrupt+"/"+layer)
	testutil.Require(t, err == nil && len(body) == len(content), "%d bytes, %v; want %d", len(body), err, len(content))
	different := 0
	for i := range body {
		if body[i] != content[i] {
			different++
		}
	}
	testutil.Assert(t, different == 1, "%d bytes are different", different)
}

func TestSlowBlob(t *testing.T) {
	r, layer, content := start(t)
	began := time.Now()
	_, body, err := get(t, t.Context(), r.Addr, rigenv.PrefixSlow+"/"+layer)
	testutil.Assert(t, err == nil && string(body) == string(content),
		"%d bytes, %v; want %d", len(body), err, len(content))
	took := time.Since(began)
	testutil.Assert(t, took >= 3*rigenv.SlowPause, "took only %v", took)
}

func TestStalledBlob(t *testing.T) {
	r, layer, _ := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*rigenv.SlowPause)
	defer cancel()
	_, body, err := get(t, ctx, r.Addr, rigenv.PrefixStalled+"/"+layer)
	testutil.Assert(t, len(body) == stalledPiece && errors.Is(err, context.DeadlineExceeded),
		"%d bytes, %v; want %d and no end", len(body), err, stalledPiece)
}

func TestMissingAndUnavailableBlobs(t *testing.T) {
	r, layer, _ := start(t)
	for prefix, want := range map[string]int{rigenv.PrefixNoBlobs: 404, rigenv.PrefixUnavailable: 503} {
		status, _, _ := get(t, t.Context(), r.Addr, prefix+"/"+layer)
		testutil.Assert(t, status == want, "%s: status %d, want %d", prefix, status, want)
	}
}

func TestImageKeysNeedATag(t *testing.T) {
	image, err := random.Image(16, 1)
	testutil.Must(t, err)
	_, err = Start(t.Context(), map[string]v1.Image{"image": image})
	testutil.Assert(t, err != nil, "accepted")
}
