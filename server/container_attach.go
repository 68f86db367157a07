package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Attach returns a URL at which the streams of a running container are. That the container exists and runs is checked
// before a URL is given out, and again when it is used. The engine is asked, because a client that is refused here
// reads the log instead, and one that is refused later reports an internal error.
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
	url, err := s.opts.Streams.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: id,
		Tty:         req.GetTty(),
		Stdin:       req.GetStdin(),
		Stdout:      req.GetStdout(),
		Stderr:      req.GetStderr(),
	})
	if err != nil {
		return nil, err
	}
	return &runtimeapi.AttachResponse{Url: url}, nil
}
