package server

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// criVersion is the version of CRI that the kubelet expects here. It has never changed.
	criVersion = "0.1.0"
	// runtimeName is the prefix of container ids in pod statuses ("docker://…"). dockershim and cri-dockerd have the
	// same name, so that a node keeps its container ids after a migration.
	runtimeName = "docker"
	// unknownVersion is the version of an engine that was never reached. Clients expect a semantic version.
	unknownVersion = "0.0.0-unknown"
)

// Version returns the versions of CRI and of the engine. It succeeds without an engine, because clients call it before
// Status, which says why the engine is missing.
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
