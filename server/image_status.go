package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/image"
)

// ImageStatus returns one image. The CRI text: "If the image is not present,
// returns a response with ImageStatusResponse.Image set to nil."
func (s *Server) ImageStatus(
	ctx context.Context, req *runtimeapi.ImageStatusRequest,
) (*runtimeapi.ImageStatusResponse, error) {
	if err := requireImage(req.GetImage()); err != nil {
		return nil, err
	}
	return s.opts.Images.Status(ctx, req.GetImage(), image.StatusOptions{Verbose: req.GetVerbose()})
}

// requireImage checks that a request names an image.
func requireImage(spec *runtimeapi.ImageSpec) error {
	return require(
		need{"image", spec != nil},
		need{"image.image", spec.GetImage() != ""},
	)
}
