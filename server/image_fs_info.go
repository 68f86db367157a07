package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ImageFsInfo returns the usage of the filesystems of images and containers.
func (s *Server) ImageFsInfo(
	ctx context.Context, _ *runtimeapi.ImageFsInfoRequest,
) (*runtimeapi.ImageFsInfoResponse, error) {
	return s.opts.Images.FsInfo(ctx)
}
