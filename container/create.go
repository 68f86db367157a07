package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/state"
)

// logFolderMode is the mode of a log folder that the kubelet has not made.
const logFolderMode = 0o755

// draft is a container before the engine knows it.
type draft struct {
	pod  *state.Pod
	spec docker.ContainerSpec
	// config is the client's configuration as the checkpoint keeps it.
	config json.RawMessage
	// release lets go of the images that it mounts, which the container holds
	// from its creation on.
	release func()
}

// Create makes a container in a pod and returns its id (CRI CreateContainer).
// It fails with ErrNotFound for an unknown sandbox and a missing image,
// ErrFailedPrecondition for a sandbox that is not ready, ErrInvalidArgument
// naming the field, ErrAlreadyExists when the pod has a container of the same
// name and attempt, and ErrUnavailable while the engine is away. After an error
// nothing is left.
//
// The order is safe against a crash between any two steps: a container that
// the engine has and the checkpoint has not was never given to anybody, and
// the next Create of the same name removes it.
//
// podConfig is the request's copy of the pod's configuration. It counts only
// for a pod that is known from its labels alone (another shim's, or one whose
// checkpoint was lost), which do not hold its log folder and cgroup.
func (s *Service) Create(ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig) (string, error) {
	if err := s.opts.Mirror.Err(); err != nil {
		return "", err
	}
	pod, err := s.readyPod(sandboxID)
	if err != nil {
		return "", err
	}
	d, err := s.prepare(ctx, withConfig(pod, podConfig), config)
	if err != nil {
		return "", err
	}
	defer d.release()
	// One request of a name at a time, until its container is published: the
	// next one must not take it for a leftover.
	unlock, err := s.locks.Lock(ctx, d.spec.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	id, err := s.makeHidden(ctx, d)
	if err != nil {
		return "", err
	}
	if err := s.publish(ctx, pod.ID, id); err != nil {
		return "", errors.Join(err, s.unmake(ctx, pod.ID, id))
	}
	return id, nil
}

// withConfig completes what is known of a pod, if the configuration is the
// pod's.
func withConfig(pod *state.Pod, config *runtimeapi.PodSandboxConfig) *state.Pod {
	known := pod.Meta.Config
	if known.GetLinux() != nil || known.GetLogDirectory() != "" || !proto.Equal(known.GetMetadata(), config.GetMetadata()) {
		return pod
	}
	completed := *pod
	completed.Meta.Config = config
	return &completed
}

// prepare does everything that can fail without touching the engine's
// containers.
func (s *Service) prepare(ctx context.Context, pod *state.Pod, config *runtimeapi.ContainerConfig) (*draft, error) {
	features, err := s.opts.Engine.Features(ctx)
	if err != nil {
		return nil, err
	}
	if config.GetImage().GetImage() == "" {
		return nil, fmt.Errorf("config.image.image is empty: %w", errdefs.ErrInvalidArgument)
	}
	if err := s.checkTarget(pod.ID, config.GetLinux().GetSecurityContext().GetNamespaceOptions()); err != nil {
		return nil, err
	}
	imageID, err := s.opts.Images.Resolve(ctx, config.GetImage().GetImage())
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("config.image.image: pull %q before creating a container of it: %w", config.GetImage().GetImage(), err)
	}
	if errdefs.IsInvalidArgument(err) {
		return nil, fmt.Errorf("config.%w", err)
	}
	if err != nil {
		return nil, err
	}
	in := translate.ContainerInput{
		Config: config,
		Sandbox: translate.SandboxRef{
			ID:             pod.ID,
			Config:         pod.Meta.Config,
			RuntimeHandler: pod.Meta.RuntimeHandler,
			HostNetwork:    pod.Meta.HostNetwork,
		},
		ImageID:       imageID,
		Features:      features,
		Files:         s.opts.Files(pod.ID),
		EngineLogOnly: s.opts.LinkLogs,
		ReadProfile:   os.ReadFile,
		RootDirectory: s.opts.RootDirectory,
		ImageSources:  namedImages(config),
	}
	spec, err := translate.Container(in)
	if err != nil {
		return nil, err
	}
	if err := checkSources(translate.HostSources(config)); err != nil {
		return nil, err
	}
	raw, err := marshalConfig(config)
	if err != nil {
		return nil, err
	}
	d := &draft{pod: pod, spec: spec, config: raw, release: func() {}}
	if err := s.addImageVolumes(ctx, d, in); err != nil {
		return nil, err
	}
	return d, nil
}

// checkSources refuses host paths that do not exist: the engine would fail only
// at the start, or make a folder where a file was meant.
func checkSources(sources []translate.HostSource) error {
	for _, source := range sources {
		if _, err := os.Stat(source.Path); err != nil {
			return fmt.Errorf("%s: %w: %w", source.Field, err, errdefs.ErrInvalidArgument)
		}
	}
	return nil
}

// makeHidden makes the container while nobody sees it: the engine's events
// would show it before it has its record.
func (s *Service) makeHidden(ctx context.Context, d *draft) (string, error) {
	release, err := s.opts.Mirror.Reserve(d.spec.Name)
	if err != nil {
		return "", err
	}
	defer release()
	return s.make(ctx, d)
}

// make creates the container and writes its record.
func (s *Service) make(ctx context.Context, d *draft) (string, error) {
	if err := s.clearName(ctx, d); err != nil {
		return "", err
	}
	if path := translate.LogPath(d.spec.Config.Labels); path != "" {
		if err := os.MkdirAll(filepath.Dir(path), logFolderMode); err != nil {
			return "", fmt.Errorf("making the log folder of sandbox_config.log_directory and config.log_path: %w", err)
		}
	}
	// Step 1: the engine has the container, with the CRI metadata in its labels.
	id, err := s.createInEngine(ctx, d)
	if err != nil {
		return "", err
	}
	// Step 2: the checkpoint has its configuration. From here on it is ours.
	err = s.saveRecord(d.pod.ID, id, func(kept *checkpoint.Container) { kept.Config = d.config })
	if err != nil {
		return "", errors.Join(err, s.unmake(ctx, d.pod.ID, id))
	}
	return id, nil
}

// createInEngine makes the container. When the engine's answer is lost the
// container may exist all the same; then it is removed by its name.
func (s *Service) createInEngine(ctx context.Context, d *draft) (string, error) {
	id, err := s.opts.Engine.CreateContainer(ctx, d.spec)
	switch {
	case err == nil:
		return id, nil
	case errdefs.IsConflict(err):
		if err := s.removeLeftover(ctx, d.spec.Name); err != nil {
			return "", err
		}
		return s.opts.Engine.CreateContainer(ctx, d.spec)
	case ctx.Err() != nil:
		settle, cancel := settling(ctx)
		defer cancel()
		if undoErr := s.removeLeftover(settle, d.spec.Name); undoErr != nil {
			logrus.WithError(undoErr).WithField("container", d.spec.Name).Warn("cannot remove a container that nobody waits for any more, the next request of its name will")
		}
	}
	return "", err
}

// publish shows the new container to everybody. A pod that was asked to stop
// meanwhile may have stopped its containers without this one.
func (s *Service) publish(ctx context.Context, sandboxID, id string) error {
	if _, err := s.opts.Mirror.RefreshContainer(ctx, id); err != nil {
		return fmt.Errorf("looking at the new container: %w", err)
	}
	_, err := s.readyPod(sandboxID)
	return err
}

// unmake undoes a Create, on a context of its own. What it cannot remove stays
// visible for the kubelet's garbage collection.
func (s *Service) unmake(ctx context.Context, sandboxID, id string) error {
	settle, cancel := settling(ctx)
	defer cancel()
	if err := ignoreNotFound(s.opts.Engine.RemoveContainer(settle, id)); err != nil {
		return fmt.Errorf("rolling back: %w", err)
	}
	s.opts.Mirror.RemoveContainer(id)
	if err := s.dropRecord(sandboxID, id); err != nil {
		return fmt.Errorf("rolling back: %w", err)
	}
	return nil
}
