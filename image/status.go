package image

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	"github.com/opencontainers/go-digest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StatusOptions are the options of Status.
type StatusOptions struct {
	// Verbose adds the image's configuration to the answer's info.
	Verbose bool
}

// Status returns the image that spec names by id, id prefix, tag or digest. The default tag is "latest". For an unknown
// image it returns an answer without an image and no error, as the CRI text says.
func (s *Service) Status(ctx context.Context, spec *runtimeapi.ImageSpec, opts StatusOptions) (*runtimeapi.ImageStatusResponse, error) {
	ref, err := lookupReference(spec)
	if err != nil {
		return nil, err
	}
	inspect, err := s.inspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	response := &runtimeapi.ImageStatusResponse{Image: s.fromInspect(inspect)}
	if opts.Verbose {
		response.Info, err = verboseInfo(inspect)
	}
	return response, err
}

// Resolve returns the id of the image that ref names. It fails with ErrNotFound if the image is not present. It answers
// a cached id from memory. If the image was removed outside of this service, the engine refuses the creation of the
// container.
func (s *Service) Resolve(ctx context.Context, ref string) (string, error) {
	lookup, err := lookupReference(&runtimeapi.ImageSpec{Image: ref})
	if err != nil {
		return "", err
	}
	if isID(lookup) {
		if _, known := s.facts.of(lookup); known {
			return lookup, nil
		}
	}
	inspect, err := s.inspect(ctx, lookup)
	if errdefs.IsNotFound(err) {
		s.facts.forget(lookup)
		return "", fmt.Errorf("image %q is not present: %w", ref, errdefs.ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return inspect.ID, nil
}

// Digested returns a name by digest ("repository@sha256:…") of the image with this id. It prefers the repository of
// name, and returns "" without any, as for an image that was built or loaded here. It fails with ErrNotFound if the
// image is not present.
func (s *Service) Digested(ctx context.Context, id, name string) (string, error) {
	known, ok := s.facts.of(id)
	if !ok {
		inspect, err := s.inspect(ctx, id)
		if err != nil {
			return "", err
		}
		known.digests = inspect.RepoDigests
	}
	for _, digested := range known.digests {
		if sameRepository(digested, name) {
			return digested, nil
		}
	}
	if len(known.digests) == 0 {
		return "", nil
	}
	return known.digests[0], nil
}

// isID reports whether ref is the full id of an image.
func isID(ref string) bool {
	_, err := digest.Parse(ref)
	return err == nil
}

// verboseInfo is the info of `crictl inspecti`: the image's configuration under the key of containerd's CRI plugin.
func verboseInfo(inspect *image.InspectResponse) (map[string]string, error) {
	type rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	type imageSpec struct {
		Created      string `json:"created,omitempty"`
		Author       string `json:"author,omitempty"`
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		Config       any    `json:"config,omitempty"`
		RootFS       rootFS `json:"rootfs"`
	}
	spec := imageSpec{
		Created:      inspect.Created,
		Author:       inspect.Author,
		Architecture: inspect.Architecture,
		OS:           inspect.Os,
		RootFS:       rootFS{Type: inspect.RootFS.Type, DiffIDs: inspect.RootFS.Layers},
	}
	if inspect.Config != nil {
		spec.Config = inspect.Config
	}
	text, err := json.Marshal(map[string]any{"imageSpec": spec})
	if err != nil {
		return nil, fmt.Errorf("encode the image's configuration: %w", err)
	}
	return map[string]string{"info": string(text)}, nil
}
