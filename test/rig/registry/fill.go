package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// fill uploads the images, keyed "repository:tag", by calling the handler: a client would bring along everything that
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
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		blob, err := layer.Compressed()
		if err != nil {
			return err
		}
		if err := uploadBlob(ctx, store, repository, digest, blob); err != nil {
			return err
		}
	}
	configDigest, err := image.ConfigName()
	if err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	if err := uploadBlob(ctx, store, repository, configDigest, io.NopCloser(bytes.NewReader(config))); err != nil {
		return err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return err
	}
	req := httptest.NewRequestWithContext(ctx, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, bytes.NewReader(manifest))
	req.Header.Set("Content-Type", string(mediaType))
	return send(store, req)
}

// uploadBlob stores a blob in one request (a POST with its digest) and closes it.
func uploadBlob(ctx context.Context, store http.Handler, repository string, digest v1.Hash, blob io.ReadCloser) error {
	defer blob.Close()
	path := fmt.Sprintf("/v2/%s/blobs/uploads/?digest=%s", repository, digest)
	return send(store, httptest.NewRequestWithContext(ctx, http.MethodPost, path, blob))
}

func send(store http.Handler, req *http.Request) error {
	answer := httptest.NewRecorder()
	store.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("%s %s: status %d: %s", req.Method, req.URL.Path, answer.Code, answer.Body)
	}
	return nil
}
