package nri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/internal/ocinote"
	"github.com/criadapter/criadapter/state"
)

// RunPod tells the plugins about a new pod. An error means that a plugin refuses it.
func (s *Service) RunPod(ctx context.Context, pod *state.Pod) error {
	if asks, err := s.asks(ctx); !asks {
		return err
	}
	return refused(s.adaptation.RunPodSandbox(forPlugins(ctx), &adaptation.RunPodSandboxRequest{Pod: describePod(pod)}))
}

// StopPod tells the plugins about a pod whose containers have ended.
func (s *Service) StopPod(ctx context.Context, pod *state.Pod) {
	s.reported.end(ctx, pod.ID, time.Time{}, func(ctx context.Context) {
		s.tell(ctx, "StopPodSandbox", func() error {
			return s.adaptation.StopPodSandbox(forPlugins(ctx),
				&adaptation.StopPodSandboxRequest{Pod: describePod(pod)})
		})
	})
}

// RemovePod tells the plugins about a pod that is about to be removed.
func (s *Service) RemovePod(ctx context.Context, pod *state.Pod) {
	s.StopPod(ctx, pod)
	s.reported.removal(ctx, pod.ID, func(ctx context.Context) {
		s.tell(ctx, "RemovePodSandbox", func() error {
			return s.adaptation.RemovePodSandbox(forPlugins(ctx),
				&adaptation.RemovePodSandboxRequest{Pod: describePod(pod)})
		})
	})
}

// UndoPod tells the plugins about the end and removal of a pod that some of them may know from RunPod. Call it only for
// a pod that the cache never had.
func (s *Service) UndoPod(ctx context.Context, pod *state.Pod) {
	if s.hasAsked() {
		s.RemovePod(ctx, pod)
		s.reported.forget(pod.ID) // no change of the cache will show its removal
	}
}

// UpdatePod tells the plugins about new limits of a pod, before they apply. An error means that a plugin refuses them.
func (s *Service) UpdatePod(
	ctx context.Context, pod *state.Pod, overhead, resources *runtimeapi.LinuxContainerResources,
) error {
	if asks, err := s.asks(ctx); !asks {
		return err
	}
	_, err := s.adaptation.UpdatePodSandbox(forPlugins(ctx), &adaptation.UpdatePodSandboxRequest{Pod: describePod(pod),
		OverheadLinuxResources: fromCRI(overhead), LinuxResources: fromCRI(resources)})
	return refused(err)
}

// PodUpdated tells the plugins that new limits of a pod apply.
func (s *Service) PodUpdated(ctx context.Context, pod *state.Pod) {
	s.tell(ctx, "PostUpdatePodSandbox", func() error {
		return s.adaptation.PostUpdatePodSandbox(forPlugins(ctx),
			&adaptation.PostUpdatePodSandboxRequest{Pod: describePod(pod)})
	})
}

// CreateContainer asks the plugins about a container that the engine has created and not started. It returns their
// adjustments: note is nil for none, and limits has the changed limits. An error means that a plugin refuses the
// container, that plugins contradict each other, or that an adjustment is not supported.
func (s *Service) CreateContainer(
	ctx context.Context, pod *state.Pod, c *state.Container,
) (note *ocinote.Adjustment, limits *runtimeapi.LinuxContainerResources, err error) {
	if asks, err := s.asks(ctx); !asks {
		return nil, nil, err
	}
	described, err := s.describe(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	env := slices.Clone(described.Env)
	answer, err := s.adaptation.CreateContainer(forPlugins(ctx),
		&adaptation.CreateContainerRequest{Pod: describePod(pod), Container: described})
	if err != nil {
		return nil, nil, refused(err)
	}
	// The library removes variables from the request, and does not mention them in its answer.
	if note, limits, err = s.adjustment(answer.GetAdjust(), missing(env, described.Env)); err != nil {
		return nil, nil, err
	}
	return note, limits, s.apply(ctx, answer.GetUpdate())
}

// missing returns the names of variables in env that are not in kept.
func missing(env, kept []string) []string {
	name := func(variable string) string { name, _, _ := strings.Cut(variable, "="); return name }
	var names []string
	for _, variable := range env {
		if !slices.ContainsFunc(kept, func(other string) bool { return name(other) == name(variable) }) {
			names = append(names, name(variable))
		}
	}
	return names
}

// ContainerCreated tells the plugins about a container with its adjustments.
func (s *Service) ContainerCreated(ctx context.Context, pod *state.Pod, c *state.Container) {
	s.tellOf(ctx, "PostCreateContainer", c, func(described *api.Container) error {
		return s.adaptation.PostCreateContainer(forPlugins(ctx),
			&adaptation.PostCreateContainerRequest{Pod: describePod(pod), Container: described})
	})
}

// StartContainer tells the plugins about a container that is about to start. An error means that a plugin refuses it.
func (s *Service) StartContainer(ctx context.Context, pod *state.Pod, c *state.Container) error {
	if asks, err := s.asks(ctx); !asks {
		return err
	}
	described, err := s.describe(ctx, c)
	if err != nil {
		return err
	}
	return refused(s.adaptation.StartContainer(forPlugins(ctx),
		&adaptation.StartContainerRequest{Pod: describePod(pod), Container: described}))
}

// ContainerStarted tells the plugins about a container that runs.
func (s *Service) ContainerStarted(ctx context.Context, pod *state.Pod, c *state.Container) {
	s.tellOf(ctx, "PostStartContainer", c, func(described *api.Container) error {
		return s.adaptation.PostStartContainer(forPlugins(ctx),
			&adaptation.PostStartContainerRequest{Pod: describePod(pod), Container: described})
	})
}

// UpdateContainer asks the plugins about new limits of a container. It returns the limits with the plugins' changes.
func (s *Service) UpdateContainer(
	ctx context.Context, pod *state.Pod, c *state.Container, wanted *runtimeapi.LinuxContainerResources,
) (*runtimeapi.LinuxContainerResources, error) {
	if asks, err := s.asks(ctx); !asks {
		return wanted, err
	}
	described, err := s.describe(ctx, c)
	if err != nil {
		return nil, err
	}
	answer, err := s.adaptation.UpdateContainer(forPlugins(ctx), &adaptation.UpdateContainerRequest{
		Pod: describePod(pod), Container: described, LinuxResources: fromCRI(wanted)})
	if err != nil {
		return nil, refused(err)
	}
	var others []*api.ContainerUpdate
	for _, update := range answer.GetUpdate() {
		switch {
		case update == nil: // no plugin changes this container's limits
			continue
		case update.GetContainerId() != c.ID:
			others = append(others, update)
			continue
		}
		changed, more, err := toCRI(update.GetLinux().GetResources())
		if err == nil {
			err = s.limitMore(ctx, c.ID, more)
		}
		if err != nil {
			return nil, err
		}
		changed.OomScoreAdj = wanted.GetOomScoreAdj()
		wanted = changed
	}
	return wanted, s.apply(ctx, others)
}

// ContainerUpdated tells the plugins that new limits of a container apply.
func (s *Service) ContainerUpdated(ctx context.Context, pod *state.Pod, c *state.Container) {
	s.tellOf(ctx, "PostUpdateContainer", c, func(described *api.Container) error {
		return s.adaptation.PostUpdateContainer(forPlugins(ctx),
			&adaptation.PostUpdateContainerRequest{Pod: describePod(pod), Container: described})
	})
}

// containerEnded tells the plugins about a container that has ended, once for each of its runs. run is the start of the
// run, zero for a container that never ran.
func (s *Service) containerEnded(ctx context.Context, pod *state.Pod, c *state.Container, run time.Time) {
	var updates []*api.ContainerUpdate
	s.reported.end(ctx, c.ID, run, func(ctx context.Context) {
		s.tellOf(ctx, "StopContainer", c, func(described *api.Container) error {
			answer, err := s.adaptation.StopContainer(forPlugins(ctx),
				&adaptation.StopContainerRequest{Pod: describePod(pod), Container: described})
			updates = answer.GetUpdate()
			return err
		})
	})
	// The updates apply even if the caller is gone, because plugins are not asked again. apply has a time limit of its
	// own.
	if err := s.apply(context.WithoutCancel(ctx), updates); err != nil {
		log.G(ctx).WithError(err).Warn("updates that an NRI plugin requested after the end of a container failed")
	}
}

// RemoveContainer tells the plugins about a container that does not run and is about to be removed. Plugins that have
// not heard of the container's end hear of it first, even if the container never ran: many plugins free a container's
// CPUs and devices at its end.
func (s *Service) RemoveContainer(ctx context.Context, pod *state.Pod, c *state.Container) {
	s.containerEnded(ctx, pod, c, c.Status.StartedAt)
	s.reported.removal(ctx, c.ID, func(ctx context.Context) {
		s.tellOf(ctx, "RemoveContainer", c, func(described *api.Container) error {
			return s.removed(ctx, pod, described)
		})
	})
}

// UndoContainer tells the plugins about the end and removal of a container that CreateContainer has asked them about.
// The cache may have the container. Call it before the container is removed.
func (s *Service) UndoContainer(ctx context.Context, pod *state.Pod, c *state.Container) {
	if !s.hasAsked() {
		return
	}
	s.RemoveContainer(ctx, pod, c)
	if _, err := s.opts.Cache.Snapshot().Container(c.ID); err != nil {
		s.reported.forget(c.ID) // no change of the cache will show its removal
	}
}

func (s *Service) removed(ctx context.Context, pod *state.Pod, c *api.Container) error {
	return s.adaptation.RemoveContainer(forPlugins(ctx),
		&adaptation.RemoveContainerRequest{Pod: describePod(pod), Container: c})
}

// tell sends the plugins an event that they cannot refuse. It logs a failure.
func (s *Service) tell(ctx context.Context, event string, send func() error) {
	asks, err := s.asks(ctx)
	if asks {
		err = send()
	}
	if err != nil {
		log.G(ctx).WithError(err).WithField("event", event).Warn("an NRI plugin failed")
	}
}

// tellOf is tell with a described container.
func (s *Service) tellOf(ctx context.Context, event string, c *state.Container, send func(*api.Container) error) {
	s.tell(ctx, event, func() error {
		return send(s.describeAnyhow(ctx, c))
	})
}

// forPlugins is the context of a request to the plugins. It does not end with the caller: the library drops a plugin
// whose request ends early, and has a time limit of its own for each plugin.
func forPlugins(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// refused is the error of a request that a plugin refuses.
func refused(err error) error {
	if err == nil {
		return nil
	}
	// The plugin's error may have a gRPC status. %v hides it, so that the request fails with PermissionDenied.
	return fmt.Errorf("an NRI plugin refuses it: %v: %w", err, errdefs.ErrPermissionDenied)
}
