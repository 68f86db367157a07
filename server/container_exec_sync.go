package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/container"
)

// ExecSync runs a command in a container and returns its output. After the timeout it kills the command and fails with
// DEADLINE_EXCEEDED, which the kubelet counts as a failed probe.
func (s *Server) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	if err := require(
		need{"container_id", req.GetContainerId() != ""},
		need{"cmd", len(req.GetCmd()) > 0},
	); err != nil {
		return nil, err
	}
	timeout, err := seconds("timeout", req.GetTimeout())
	if err != nil {
		return nil, err
	}
	id, err := s.containerID(ctx, req.GetContainerId())
	if err != nil {
		return nil, err
	}
	result, err := s.opts.Containers.ExecSync(ctx, id, container.ExecRequest{Command: req.GetCmd(), Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return &runtimeapi.ExecSyncResponse{Stdout: result.Stdout, Stderr: result.Stderr, ExitCode: result.ExitCode}, nil
}
