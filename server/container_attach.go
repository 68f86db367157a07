package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Attach returns a URL for the streams of a running container. It asks the engine whether the container runs: a client
// that Attach refuses reads the log instead. The container is checked again when the client uses the URL, but a client
// that is refused then reports an internal error.
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
