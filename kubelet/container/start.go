package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/status"

	"github.com/criadapter/criadapter/kubelet/images"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podspec"
)

// start brings one container up: image, configuration, create, start, postStart hook. Again is when the pull's back-off
// ends, if that is why it failed.
func (a *Actor) start(ctx context.Context, in inSandbox, start Start) (again time.Duration, err error) {
	name := start.Spec.Name
	image, again, err := a.opts.Images.Ensure(ctx, images.Request{
		Pod: in.pod, Image: start.Spec.Image, Policy: start.Spec.ImagePullPolicy, Sandbox: in.config, Tell: a.tellImage(in, name),
	})
	if err != nil {
		return again, err
	}
	volumes, again, err := a.imageVolumes(ctx, in, start.Spec)
	if err != nil {
		return again, err
	}
	id, err := a.create(ctx, in, start, podspec.ContainerInput{
		Pod: in.pod, Container: start.Spec, Kind: start.Kind, Attempt: start.Attempt,
		ImageID: image.GetId(), Image: image, ImageVolumes: volumes, PodIPs: in.ips,
	})
	if err != nil {
		return 0, err
	}
	if err := a.opts.Runtime.StartContainer(ctx, id); err != nil {
		a.tell(in.pod, name, true)("Failed", "Error: "+message(err))
		return 0, &model.ReasonError{Reason: model.ReasonRunContainerError, Err: fmt.Errorf("start container %s: %s", name, message(err))}
	}
	a.tell(in.pod, name, false)("Started", "Container started")
	return 0, a.postStart(ctx, in, start, id)
}

func (a *Actor) tellImage(in inSandbox, name string) func(reason, message string) {
	return func(reason, message string) {
		a.tell(in.pod, name, reason != "Pulling" && reason != "Pulled")(reason, message)
	}
}

// create makes the container; one that was made and cannot be used is left to the garbage collection.
func (a *Actor) create(ctx context.Context, in inSandbox, start Start, input podspec.ContainerInput) (string, error) {
	fail := func(reason string, err error) error {
		a.tell(in.pod, start.Spec.Name, true)("Failed", "Error: "+message(err))
		return &model.ReasonError{Reason: reason, Err: fmt.Errorf("%s", message(err))}
	}
	config, undo, err := a.opts.Specs.Container(ctx, input)
	if err != nil {
		return "", fail(model.ReasonCreateConfigError, err)
	}
	defer undo()
	if config.GetLogPath() != "" {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(in.config.GetLogDirectory(), config.GetLogPath())), 0o755); err != nil {
			return "", fail(model.ReasonCreateConfigError, err)
		}
	}
	id, err := a.opts.Runtime.CreateContainer(ctx, in.id, config, in.config)
	if err != nil {
		return "", fail(createReason(err))
	}
	a.tell(in.pod, start.Spec.Name, false)("Created", "Container created")
	return id, nil
}

// message is an error's text without gRPC's dressing.
func message(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
