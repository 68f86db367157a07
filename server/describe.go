package server

import (
	"context"
	"maps"

	"github.com/containerd/log"
	"go.opentelemetry.io/otel/trace"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// requestFields are those of every log line of a request, in whatever package it is written: its number and RPC, the
// trace that it is recorded in, and the ids and names of what it is about.
func (s *Server) requestFields(ctx context.Context, c *call, req any) log.Fields {
	fields := s.describe(req)
	fields["request"], fields["rpc"] = c.number, c.method
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		fields["traceID"] = span.TraceID().String()
	}
	return fields
}

// describe returns what the log says about a request: ids and names, never credentials, environments or commands. The
// names of existing pods and containers come from the cache, before the request changes anything.
func (s *Server) describe(req any) log.Fields {
	fields := log.Fields{}
	switch r := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		addPod(fields, r.GetConfig().GetMetadata())
	case *runtimeapi.PullImageRequest:
		addPod(fields, r.GetSandboxConfig().GetMetadata())
	case *runtimeapi.CreateContainerRequest:
		if metadata := r.GetConfig().GetMetadata(); metadata != nil {
			fields["container"] = metadata.GetName()
		}
	}
	if r, ok := req.(interface{ GetPodSandboxId() string }); ok && r.GetPodSandboxId() != "" {
		s.addSandbox(fields, r.GetPodSandboxId())
	}
	if r, ok := req.(interface{ GetContainerId() string }); ok && r.GetContainerId() != "" {
		s.addContainer(fields, r.GetContainerId())
	}
	if r, ok := req.(interface{ GetImage() *runtimeapi.ImageSpec }); ok && r.GetImage() != nil {
		fields["image"] = r.GetImage().GetImage()
	}
	return fields
}

func addPod(fields log.Fields, metadata *runtimeapi.PodSandboxMetadata) {
	if metadata != nil {
		fields["pod"] = metadata.GetNamespace() + "/" + metadata.GetName()
	}
}

// addSandbox describes a sandbox, which the client may name by a part of its id.
func (s *Server) addSandbox(fields log.Fields, id string) {
	fields["podSandboxID"] = id
	if pod, err := s.opts.Cache.Snapshot().Pod(id); err == nil {
		maps.Copy(fields, pod.LogFields())
	}
}

// addContainer describes a container and its pod.
func (s *Server) addContainer(fields log.Fields, id string) {
	fields["containerID"] = id
	container, err := s.opts.Cache.Snapshot().Container(id)
	if err != nil {
		return
	}
	maps.Copy(fields, container.LogFields())
	s.addSandbox(fields, container.SandboxID)
}

// responseFields has the id that a request brought forth, or would have.
func responseFields(resp any) log.Fields {
	var field, id string
	switch r := resp.(type) {
	case *runtimeapi.RunPodSandboxResponse:
		field, id = "podSandboxID", r.GetPodSandboxId()
	case *runtimeapi.CreateContainerResponse:
		field, id = "containerID", r.GetContainerId()
	case *runtimeapi.PullImageResponse:
		field, id = "imageID", r.GetImageRef()
	}
	if id == "" {
		return nil
	}
	return log.Fields{field: id}
}
