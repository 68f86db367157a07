package kuberuntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/imagemanager"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/podspec"
)

// start pulls the image, creates and starts the container, and runs its postStart hook. If a pull failed or is in
// back-off, again is the time until the next try.
func (m *Manager) start(ctx context.Context, in inSandbox, start containerStart) (again time.Duration, err error) {
	name := start.Spec.Name
	image, again, err := m.opts.Images.Ensure(ctx, imagemanager.Request{
		Pod: in.pod, Image: start.Spec.Image, Policy: start.Spec.ImagePullPolicy, Sandbox: in.config,
		Record: m.recordImage(ctx, in, name),
	})
	var volumes map[string]*runtimeapi.ImageSpec
	if err == nil {
		volumes, again, err = m.imageVolumes(ctx, in, start.Spec)
	}
	if err != nil {
		if reason := new(model.ReasonError); errors.As(err, &reason) {
			// The kubelet has this second event, too.
			m.opts.Events.WarnFailure(ctx, in.pod, name, "Failed", "Error: "+reason.Reason)
		}
		return again, err
	}
	target, err := in.target(name)
	if err != nil {
		return 0, m.failed(ctx, in, name, model.ReasonCreateConfigError, err)
	}
	if start.Attempt == 0 { // other clients of the runtime may have removed earlier attempts
		if start.Attempt, err = attemptAfterLogs(filepath.Join(in.config.GetLogDirectory(), name)); err != nil {
			return 0, err
		}
	}
	id, err := m.create(ctx, in, start, podspec.ContainerInput{
		TargetID: target,
		Pod:      in.pod, Container: start.Spec, Kind: start.Kind, Attempt: start.Attempt,
		ImageID: image.GetId(), Image: image, ImageVolumes: volumes, PodIPs: in.ips,
	})
	if err != nil {
		return 0, err
	}
	if err := m.opts.Runtime.StartContainer(ctx, id); err != nil {
		return 0, m.failed(ctx, in, name, model.ReasonRunContainerError, err)
	}
	m.record(in.pod, name, false)("Started", "Container started")
	return 0, m.postStart(ctx, in, start, id)
}

// attemptAfterLogs returns the number of a container's next attempt. It reads the numbers from the names of the logs,
// because the runtime no longer has the earlier attempts.
func attemptAfterLogs(dir string) (uint32, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var next uint32
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), ".")
		if attempt, err := strconv.ParseUint(number, 10, 32); err == nil {
			next = max(next, uint32(attempt)+1)
		}
	}
	return next, nil
}

// target returns the id of the running container that an ephemeral container names as its target, or "" without a
// target.
func (in *inSandbox) target(name string) (string, error) {
	for i := range in.pod.Spec.EphemeralContainers {
		if c := &in.pod.Spec.EphemeralContainers[i]; c.Name == name && c.TargetContainerName != "" {
			switch target := in.status.Container(c.TargetContainerName); {
			case target == nil:
				return "", fmt.Errorf("unable to find target container %s", c.TargetContainerName)
			case target.State != model.StateRunning:
				return "", fmt.Errorf("target container %s does not run", c.TargetContainerName)
			default:
				return target.ID, nil
			}
		}
	}
	return "", nil
}

func (m *Manager) recordImage(ctx context.Context, in inSandbox, name string) func(reason, message string) {
	return func(reason, message string) {
		if slices.Contains([]string{"Pulling", "Pulled", "BackOff"}, reason) {
			m.record(in.pod, name, false)(reason, message)
		} else {
			m.opts.Events.WarnFailure(ctx, in.pod, name, reason, message)
		}
	}
}

// create creates the container. Collector removes it if it cannot be used.
func (m *Manager) create(
	ctx context.Context, in inSandbox, start containerStart, input podspec.ContainerInput,
) (string, error) {
	fail := func(reason string, err error) error { return m.failed(ctx, in, start.Spec.Name, reason, err) }
	config, err := m.opts.Specs.Container(ctx, input)
	if err != nil {
		return "", fail(model.ReasonCreateConfigError, err)
	}
	if config.GetLogPath() != "" {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(in.config.GetLogDirectory(), config.GetLogPath())),
			0o755); err != nil {
			return "", fail(model.ReasonCreateConfigError, err)
		}
	}
	id, err := m.opts.Runtime.CreateContainer(ctx, in.id, config, in.config)
	if err != nil {
		return "", fail(createReason(err))
	}
	m.record(in.pod, start.Spec.Name, false)("Created", "Container created")
	return id, nil
}

// failed records that a container cannot be made or started, and returns the reason why it waits.
func (m *Manager) failed(ctx context.Context, in inSandbox, name, reason string, err error) error {
	m.opts.Events.WarnFailure(ctx, in.pod, name, "Failed", "Error: "+message(err))
	return &model.ReasonError{Reason: reason, Err: errors.New(message(err))}
}

// message returns the text of an error without the gRPC prefix.
func message(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}
