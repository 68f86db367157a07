package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Attach returns a URL of the streams of a running container. It asks the engine whether the container runs, because a
// client that is refused here reads the log instead. The use of the URL checks it again. A client that is refused there
// reports an internal error.
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
