package server

import (
	"context"
	"maps"

	"github.com/containerd/log"
	"go.opentelemetry.io/otel/trace"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// requestFields returns the fields of all log lines of a request: its number, RPC and trace, and the ids and names of
// its pod, container or image.
func (s *Server) requestFields(ctx context.Context, c *call, req any) log.Fields {
	fields := s.describe(req)
	fields["request"], fields["rpc"] = c.number, c.method
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		fields["traceID"] = span.TraceID().String()
	}
	return fields
}

// describe returns the log fields of a request: ids and names, never credentials, environments or commands. It reads
// the names from the cache, before the request changes anything.
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

// addSandbox describes a sandbox, by its id or an id prefix.
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

// responseFields returns the id of the object that a request created, even if the request failed afterwards.
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
