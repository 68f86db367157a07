package image

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/image"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker"
)

// StatusOptions are the options of Status.
type StatusOptions struct {
	// Verbose adds the image's configuration to the answer's info.
	Verbose bool
}

// Status returns the image that spec names by id, id prefix, tag or digest. The default tag is "latest". For an unknown
// image it returns an answer without an image and no error, as the CRI text says.
//
// The answer is from memory, see the package comment. Callers share the image and must not change it. If the engine
// could not inspect the image yet, Status inspects it, and returns an error of the inspect. It does not leave out the
// user: for a kubelet, an image without a user runs as root.
func (s *Service) Status(
	ctx context.Context, spec *runtimeapi.ImageSpec, opts StatusOptions,
) (*runtimeapi.ImageStatusResponse, error) {
	ref, err := lookupReference(spec)
	if err != nil {
		return nil, err
	}
	now, err := s.images.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	response := &runtimeapi.ImageStatusResponse{}
	e := now.lookup(ref)
	if e != nil && e.info == nil {
		if e, err = s.images.refresh(ctx, e.id()); docker.IgnoreNotFound(err) != nil {
			return nil, err
		}
	}
	if e == nil {
		return response, nil
	}
	response.Image = show(e, s.pinned())
	if opts.Verbose {
		response.Info = maps.Clone(e.info)
	}
	return response, nil
}

// Resolve returns the id of the image that ref names. It fails with ErrNotFound if the image is not present. It answers
// a known image from memory. If the image was removed outside of this service a moment ago, the engine refuses the
// creation of the container. It asks the engine about an unknown image, because the image may have arrived without an
// event.
func (s *Service) Resolve(ctx context.Context, ref string) (string, error) {
	lookup, err := lookupReference(&runtimeapi.ImageSpec{Image: ref})
	if err != nil {
		return "", err
	}
	if e := s.images.now.Load().lookup(lookup); e != nil {
		return e.id(), nil
	}
	e, err := s.images.refresh(ctx, lookup)
	if errdefs.IsNotFound(err) {
		return "", fmt.Errorf("image %q is not present: %w", ref, errdefs.ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return e.id(), nil
}

// IsArtifact reports whether the image with this id is an OCI artifact. A container can mount an artifact, but cannot
// run it. IsArtifact fails with ErrNotFound if the image is not present.
func (s *Service) IsArtifact(ctx context.Context, id string) (bool, error) {
	e, err := s.ofID(ctx, id)
	return e != nil && e.artifact, err
}

// ofID returns the image with an id, from memory if it is there.
func (s *Service) ofID(ctx context.Context, id string) (*entry, error) {
	if e := s.images.now.Load().ofID(id); e != nil {
		return e, nil
	}
	return s.images.refresh(ctx, id)
}

// Digested returns a name by digest ("repository@sha256:…") of the image with this id. It prefers the repository of
// name. It returns "" for an image without a digest, such as an image that was built or loaded here. It fails with
// ErrNotFound if the image is not present.
func (s *Service) Digested(ctx context.Context, id, name string) (string, error) {
	e, err := s.ofID(ctx, id)
	if err != nil {
		return "", err
	}
	digests := e.img.GetRepoDigests()
	for _, digested := range digests {
		if sameRepository(digested, name) {
			return digested, nil
		}
	}
	if len(digests) == 0 {
		return "", nil
	}
	return digests[0], nil
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
