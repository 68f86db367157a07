package server

import (
	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// describe returns what the log says about a request: ids and names, never
// credentials, environments or commands. The names of existing pods and
// containers come from the mirror, before the request changes anything.
func (s *Server) describe(req any) logrus.Fields {
	fields := logrus.Fields{}
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
		fields["sandboxID"] = r.GetPodSandboxId()
		if pod, err := s.opts.Mirror.Snapshot().Pod(r.GetPodSandboxId()); err == nil {
			addPod(fields, pod.Meta.Config.GetMetadata())
		}
	}
	if r, ok := req.(interface{ GetContainerId() string }); ok && r.GetContainerId() != "" {
		fields["containerID"] = r.GetContainerId()
		s.addContainer(fields, r.GetContainerId())
	}
	if r, ok := req.(interface{ GetImage() *runtimeapi.ImageSpec }); ok && r.GetImage() != nil {
		fields["image"] = r.GetImage().GetImage()
	}
	return fields
}

func addPod(fields logrus.Fields, metadata *runtimeapi.PodSandboxMetadata) {
	if metadata != nil {
		fields["pod"] = metadata.GetNamespace() + "/" + metadata.GetName()
	}
}

func (s *Server) addContainer(fields logrus.Fields, id string) {
	snapshot := s.opts.Mirror.Snapshot()
	container, err := snapshot.Container(id)
	if err != nil {
		return
	}
	fields["container"] = container.Meta.Config.GetMetadata().GetName()
	if pod, err := snapshot.Pod(container.SandboxID); err == nil {
		addPod(fields, pod.Meta.Config.GetMetadata())
	}
}

// describeResponse returns the id that a request brought forth.
func describeResponse(resp any) logrus.Fields {
	var field, id string
	switch r := resp.(type) {
	case *runtimeapi.RunPodSandboxResponse:
		field, id = "sandboxID", r.GetPodSandboxId()
	case *runtimeapi.CreateContainerResponse:
		field, id = "containerID", r.GetContainerId()
	case *runtimeapi.PullImageResponse:
		field, id = "imageID", r.GetImageRef()
	}
	if id == "" {
		return nil
	}
	return logrus.Fields{field: id}
}
