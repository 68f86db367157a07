package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// criVersion is the version of the CRI that the kubelet demands here, which never changed since its first days.
	criVersion = "0.1.0"
	// runtimeName begins the container ids in pod statuses ("docker://…"). It is the name that dockershim and
	// cri-dockerd use, so that a node that moves over keeps its container ids.
	runtimeName = "docker"
	// unknownVersion stands for the version of an engine that has never been
	// reached. It is a semantic version, as clients demand.
	unknownVersion = "0.0.0-unknown"
)

// Version returns the versions of the CRI and of the engine. It succeeds without an engine: clients ask for it when
// they connect, before they can ask for the status that tells what is wrong.
func (s *Server) Version(ctx context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	response := &runtimeapi.VersionResponse{
		Version:           criVersion,
		RuntimeName:       runtimeName,
		RuntimeVersion:    unknownVersion,
		RuntimeApiVersion: unknownVersion,
	}
	if features, ok := s.lastFeatures(ctx); ok {
		response.RuntimeVersion = features.ServerVersion
		// The engine's API versions have two parts, semantic versions three.
		response.RuntimeApiVersion = features.APIVersion + ".0"
	}
	return response, nil
}
