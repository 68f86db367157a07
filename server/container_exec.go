package server

import (
	"context"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Exec returns a URL at which a command runs in a container with the client's streams. It checks that the container
// runs. The container is checked again when the client uses the URL.
func (s *Server) Exec(ctx context.Context, req *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if err := require(
		need{"container_id", req.GetContainerId() != ""},
		need{"cmd", len(req.GetCmd()) > 0},
	); err != nil {
		return nil, err
	}
	id, err := s.runningContainer(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	session := proto.CloneOf(req)
	session.ContainerId = id
	url, err := s.opts.Streams.Exec(ctx, session)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecResponse{Url: url}, nil
}
