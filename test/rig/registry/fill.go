package registry

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/criadapter/criadapter/test/rig/images"
)

// fill uploads the images, keyed "repository:tag", by calling the handler. A registry client would add code that only
// registries on the internet need.
func fill(ctx context.Context, store http.Handler, images map[string]v1.Image) error {
	for key, image := range images {
		repository, tag, ok := strings.Cut(key, ":")
		if !ok {
			return fmt.Errorf("image key %q: want repository:tag", key)
		}
		if err := upload(ctx, store, repository, tag, image); err != nil {
			return fmt.Errorf("store %s: %w", key, err)
		}
	}
	return nil
}

func upload(ctx context.Context, store http.Handler, repository, tag string, image v1.Image) error {
	blobs, err := images.Blobs(image)
	if err != nil {
		return err
	}
	for digest, content := range blobs { // each in one request, a POST with its digest
		path := fmt.Sprintf("/v2/%s/blobs/uploads/?digest=%s", repository, digest)
		request := httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(content))
		if err := send(store, request); err != nil {
			return err
		}
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return err
	}
	path := "/v2/" + repository + "/manifests/" + tag
	req := httptest.NewRequestWithContext(ctx, http.MethodPut, path, bytes.NewReader(manifest))
	req.Header.Set("Content-Type", string(mediaType))
	return send(store, req)
}

func send(store http.Handler, req *http.Request) error {
	answer := httptest.NewRecorder()
	store.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: status %d: %s", req.Method, req.URL.Path, answer.Code, answer.Body)
	}
	return nil
}
