package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/docker/dockertest"
	"github.com/criadapter/criadapter/internal/testutil"
)

// An error of package docker names the failed call and its container. Package container does not repeat them.
func TestErrorsNameTheirContainerOnce(t *testing.T) {
	n, engine := newFakeNode(t)
	for call, do := range map[string]func(id string) error{
		"StartContainer":  func(id string) error { return n.Start(t.Context(), id) },
		"StopContainer":   func(id string) error { n.start(id); return n.Stop(t.Context(), id, 0) },
		"RemoveContainer": func(id string) error { return n.Remove(t.Context(), id) },
		"UpdateContainer": func(id string) error {
			return n.Update(t.Context(), update(id, &runtimeapi.LinuxContainerResources{CpuShares: 5}))
		},
		"AttachContainer": func(id string) error { n.start(id); return n.Attach(t.Context(), id, Streams{}) },
	} {
		t.Run(call, func(t *testing.T) {
			id := n.create(n.pod(), n.config("sleep"))
			engine.Inject(call, dockertest.Fault{Object: id, Err: errors.New("it is broken"), Times: 1})
			err := do(id)
			testutil.Assert(t, err != nil && strings.Count(err.Error(), id) == 1 &&
				strings.Contains(err.Error(), "it is broken"), "the error is %v", err)
		})
	}
	t.Run("CreateContainer", func(t *testing.T) {
		pod := n.pod()
		engine.Inject("CreateContainer", dockertest.Fault{Err: errors.New("it is broken"), Times: 1})
		_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
		testutil.Assert(t, err != nil && strings.Count(err.Error(), "k8s_c_") <= 1 &&
			strings.Count(err.Error(), "it is broken") == 1, "the error is %v", err)
	})
}

// badImages refuses every image as package image refuses an invalid name.
type badImages struct{}

func (badImages) Resolve(context.Context, string) (string, error) {
	return "", fmt.Errorf("image.image %q is neither an image's name nor its id: %w", "%", errdefs.ErrInvalidArgument)
}

func (badImages) IsArtifact(context.Context, string) (bool, error) { return false, nil }

func (badImages) Allow(context.Context, string, string) error { return nil }

func (badImages) Digested(context.Context, string, string) (string, error) { return "", nil }

func TestBadImageIsNamedByItsFieldInTheRequest(t *testing.T) {
	n, _ := newFakeNode(t)
	pod := n.pod()
	n.opts.Images = badImages{}
	_, err := n.Create(t.Context(), pod, n.config("sleep"), nil)
	testutil.Assert(t, errdefs.IsInvalidArgument(err) && strings.HasPrefix(err.Error(), "config.image.image "),
		"Create: %v", err)
}

func TestTargetOfThePIDNamespace(t *testing.T) {
	n, engine := newFakeNode(t)
	pod, running := n.runningInPod()
	other := n.running("sleep")
	ended := n.config("sleep")
	ended.Metadata.Name = "ended"
	exited := n.started(pod, ended)
	n.exit(engine, exited, 0)
	for name, tc := range map[string]struct {
		target string
		is     func(error) bool
	}{
		"running in the pod": {running, func(err error) bool { return err == nil }},
		"unknown":            {strings.Repeat("ab", 32), errdefs.IsNotFound},
		"none":               {"", errdefs.IsInvalidArgument},
		"of another pod":     {other, errdefs.IsInvalidArgument},
		"ended":              {exited, errdefs.IsFailedPrecondition},
	} {
		t.Run(name, func(t *testing.T) {
			config := n.config("sleep")
			config.Metadata.Name = "debug"
			config.Metadata.Attempt = uint32(time.Now().UnixNano())
			config.Linux = &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET,
					TargetId: tc.target},
			}}
			_, err := n.Create(t.Context(), pod, config, nil)
			if !tc.is(err) ||
				err != nil &&
					!strings.Contains(err.Error(), "config.linux.security_context.namespace_options.target_id: ") {
				t.Errorf("Create: %v", err)
			}
		})
	}
}
