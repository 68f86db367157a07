package registry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/distribution/reference"
	upstream "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/criadapter/criadapter/image/registry"
	"github.com/criadapter/criadapter/internal/testutil"
)

func TestRequestsShareOneAuthentication(t *testing.T) {
	var pings atomic.Int32
	served := upstream.New()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			pings.Add(1)
		}
		served.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ref, err := reference.ParseDockerRef(strings.TrimPrefix(server.URL, "http://") + "/a:1")
	testutil.Must(t, err)
	opened, err := registry.Open(t.Context(), ref, registry.Options{})
	testutil.Must(t, err)
	image, err := random.Image(10, 3)
	testutil.Must(t, err)
	tag := opened.Name.Tag("1")
	testutil.Must(t, remote.Write(tag, image))
	layers, err := image.Layers()
	testutil.Must(t, err)

	pings.Store(0)
	_, err = remote.Get(tag, opened.Remote...)
	testutil.Must(t, err)
	for _, layer := range layers {
		hash, err := layer.Digest()
		testutil.Must(t, err)
		got, err := remote.Layer(opened.Name.Digest(hash.String()), opened.Remote...)
		testutil.Must(t, err)
		content, err := got.Compressed()
		testutil.Must(t, err)
		testutil.Must(t, content.Close())
	}
	testutil.Assert(t, pings.Load() == 1, "%d authentication requests, want 1", pings.Load())
}
