package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Attach returns a URL for the streams of a running container. It asks the engine whether the container runs. If Attach
// refuses, the client reads the log instead. The streaming server checks the container again when the client uses the
// URL. The client reports a refusal at that point as an internal error.
func (s *Server) Attach(ctx context.Context, req *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if err := require(need{"container_id", req.GetContainerId() != ""}); err != nil {
		return nil, err
	}
	id, err := s.runningContainer(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	if err := s.opts.Containers.CheckRunning(ctx, id); err != nil {
		return nil, err
	}
	session := proto.CloneOf(req)
	session.ContainerId = id
	url, err := s.opts.Streams.Attach(ctx, session)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.AttachResponse{Url: url}, nil
}
