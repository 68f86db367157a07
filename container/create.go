package container

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/checkpoint"
	"github.com/criadapter/criadapter/docker"
	"github.com/criadapter/criadapter/docker/translate"
	"github.com/criadapter/criadapter/logs"
	"github.com/criadapter/criadapter/state"
)

// draft is a container before the engine knows it.
type draft struct {
	pod  *state.Pod
	spec docker.ContainerSpec
	// config is the configuration for the checkpoint: request, with the limits that plugins have set.
	config json.RawMessage
	// request is the client's configuration, with the references of the images that the container mounts.
	request *runtimeapi.ContainerConfig
	// imageID is the image's id.
	imageID string
	// imageRef is the image's name by digest, empty where it has none.
	imageRef string
	// release drops the hold on the images that the container mounts. The created container holds them itself.
	release func()
}

// Create makes a container in a pod and returns its id (CRI CreateContainer). It fails with ErrNotFound for an unknown
// sandbox or image, ErrFailedPrecondition for a sandbox that is not ready, and ErrInvalidArgument naming the field. It
// fails with ErrAlreadyExists when the pod has a container of the same name and attempt. ErrUnavailable means that the
// engine is away or a host path's file system does not answer. After an error, directories for logs and for missing
// host paths may remain.
//
// The order is safe against a crash between any two steps. If a pod has a checkpoint, no client has the id of a
// container that the checkpoint lacks. The next Create of the same name removes such a container.
//
// podConfig is the request's copy of the pod's configuration. It says whether the pod may have privileged containers.
// For pods that are rebuilt from their labels (another shim's, or with a lost checkpoint) it also has the log directory
// and the cgroup. Without podConfig, Create uses the configuration that the pod was made with. It refuses another pod's
// configuration.
func (s *Service) Create(
	ctx context.Context, sandboxID string, config *runtimeapi.ContainerConfig, podConfig *runtimeapi.PodSandboxConfig,
) (string, error) {
	if err := s.opts.Cache.Err(); err != nil {
		return "", err
	}
	pod, err := s.readyPod(sandboxID)
	if err != nil {
		return "", err
	}
	if err := checkPodConfig(pod, podConfig); err != nil {
		return "", err
	}
	d, err := s.prepare(ctx, withConfig(pod, podConfig), config)
	if err != nil {
		return "", err
	}
	defer d.release()
	// Requests for one name run one at a time until the container is published. Otherwise the next request would take
	// the container for a leftover.
	unlock, err := s.locks.Lock(ctx, d.spec.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	defer s.opts.Plugins.Block()()
	s.unfinished.Store(d.spec.Name, pod.ID)
	id, err := s.makeHidden(ctx, d)
	if err != nil {
		return "", err
	}
	ctx = log.WithLogger(ctx, log.G(ctx).WithField("containerID", id))
	c, err := s.publish(ctx, pod.ID, id)
	if err != nil {
		return "", errors.Join(err, s.unmake(ctx, d.pod, d.container(id)))
	}
	s.unfinished.Delete(d.spec.Name)
	s.opts.Plugins.ContainerCreated(ctx, pod, c)
	return id, nil
}

// checkPodConfig refuses another pod's configuration. It compares name, namespace and UID, because the attempt may be
// an older one.
func checkPodConfig(pod *state.Pod, config *runtimeapi.PodSandboxConfig) error {
	known, given := pod.Meta.Config.GetMetadata(), config.GetMetadata()
	if given == nil ||
		known.GetName() == given.GetName() && known.GetNamespace() == given.GetNamespace() &&
			known.GetUid() == given.GetUid() {
		return nil
	}
	return fmt.Errorf("sandbox_config.metadata: it names pod %s/%s (%s), and pod_sandbox_id names %s/%s (%s): %w",
		given.GetNamespace(), given.GetName(), given.GetUid(), known.GetNamespace(), known.GetName(), known.GetUid(),
		errdefs.ErrInvalidArgument)
}

// withConfig returns the pod with the pod configuration of a CreateContainer request, if the request is about this pod.
// A pod known only from its labels gets the whole configuration. Any other pod gets only a missing log directory and
// the field privileged. The kubelet sends that field with each container: an ephemeral container may be the pod's first
// privileged container.
func withConfig(pod *state.Pod, config *runtimeapi.PodSandboxConfig) *state.Pod {
	known := pod.Meta.Config
	if !proto.Equal(known.GetMetadata(), config.GetMetadata()) {
		return pod
	}
	described := *pod
	if known.GetLinux() == nil && known.GetLogDirectory() == "" {
		described.Meta.Config = config
		return &described
	}
	described.Meta.Config = proto.CloneOf(known)
	setPrivileged(described.Meta.Config, config.GetLinux().GetSecurityContext().GetPrivileged())
	if known.GetLogDirectory() == "" { // as in a pod that was taken over without containers
		described.Meta.Config.LogDirectory = config.GetLogDirectory()
	}
	return &described
}

func setPrivileged(config *runtimeapi.PodSandboxConfig, privileged bool) {
	if config.GetLinux().GetSecurityContext().GetPrivileged() == privileged {
		return
	}
	if config.Linux == nil {
		config.Linux = &runtimeapi.LinuxPodSandboxConfig{}
	}
	if config.Linux.SecurityContext == nil {
		config.Linux.SecurityContext = &runtimeapi.LinuxSandboxSecurityContext{}
	}
	config.Linux.SecurityContext.Privileged = privileged
}

// imageName is the user's name for the image. Clients send the image's id, and the name in a field of its own.
func imageName(image *runtimeapi.ImageSpec) string {
	return cmp.Or(image.GetUserSpecifiedImage(), image.GetImage())
}

// checkImage refuses an OCI artifact, and an image that the node's policy refuses.
func (s *Service) checkImage(ctx context.Context, id, name string) error {
	artifact, err := s.opts.Images.IsArtifact(ctx, id)
	if err != nil {
		return err
	}
	if artifact {
		return fmt.Errorf("%s is an OCI artifact, which has no program; mount it as an image volume: %w", name,
			errdefs.ErrInvalidArgument)
	}
	return s.opts.Images.Allow(ctx, id, name)
}

// prepare checks the request, and makes the draft of the container. It changes no container in the engine.
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
		return nil, fmt.Errorf("config.image.image: pull %q before creating a container of it: %w",
			config.GetImage().GetImage(), err)
	}
	if errdefs.IsInvalidArgument(err) {
		return nil, fmt.Errorf("config.%w", err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.checkImage(ctx, imageID, imageName(config.GetImage())); err != nil {
		return nil, fmt.Errorf("config.image.image: %w", err)
	}
	sandbox, err := s.sandboxRef(ctx, pod, config, features)
	if err != nil {
		return nil, err
	}
	in := translate.ContainerInput{
		Config:        config,
		Sandbox:       sandbox,
		ImageID:       imageID,
		Features:      features,
		Files:         s.opts.Files(pod.ID),
		EngineLogOnly: s.opts.LinkLogs,
		EngineLogSize: s.opts.LogBufferSize,
		ReadProfile:   translate.ReadProfileFile,
		ReadCDI:       translate.ReadCDIDevices,
		RootDirectory: s.opts.RootDirectory,
		ImageSources:  namedImages(config),

		RuntimeAnnotations: s.opts.RuntimeAnnotations,
		Adjustable:         s.opts.Plugins != withoutPlugins{},
	}
	spec, err := translate.Container(in)
	if err != nil {
		return nil, err
	}
	if err := s.hostPaths.requireAll(ctx, translate.HostSources(config)); err != nil {
		return nil, err
	}
	raw, err := marshalConfig(config)
	if err != nil {
		return nil, err
	}
	imageRef, err := s.opts.Images.Digested(ctx, imageID, imageName(config.GetImage()))
	if err != nil {
		return nil, fmt.Errorf("config.image.image: %w", err)
	}
	d := &draft{pod: pod, spec: spec, config: raw, request: config, imageID: imageID, imageRef: imageRef,
		release: func() {}}
	if err := s.addImageVolumes(ctx, d, in); err != nil {
		return nil, err
	}
	return d, nil
}

// sandboxRef describes the pod for a new container.
func (s *Service) sandboxRef(
	ctx context.Context, pod *state.Pod, config *runtimeapi.ContainerConfig, features docker.Features,
) (translate.SandboxRef, error) {
	ref := translate.SandboxRef{
		ID:             pod.ID,
		Config:         pod.Meta.Config,
		RuntimeHandler: pod.Meta.RuntimeHandler,
		Runtime:        pod.Meta.Runtime,
		HostNetwork:    pod.Meta.HostNetwork,
		Namespaces:     namespacesOf(pod),
		UserNamespace:  pod.Status.UserNamespace,
	}
	if ref.Namespaces != nil || !translate.NeedsProcessLabel(config, features) {
		return ref, nil
	}
	sandbox, err := s.opts.Engine.InspectContainer(ctx, pod.ID)
	if err != nil {
		return ref, fmt.Errorf("looking at the SELinux label of the sandbox: %w", err)
	}
	ref.ProcessLabel = sandbox.ProcessLabel
	return ref, nil
}

// namespacesOf returns the namespaces that a container joins in a pod without a sandbox container.
func namespacesOf(pod *state.Pod) *translate.PodNamespaces {
	others := pod.Status.Namespaces
	if others == nil {
		return nil
	}
	return &translate.PodNamespaces{Network: pod.Status.NetnsPath, IPC: others.IPC, UTS: others.UTS, Shm: others.Shm}
}

// makeHidden makes the container and hides it until it has its record. The engine's events would show it earlier.
func (s *Service) makeHidden(ctx context.Context, d *draft) (string, error) {
	release, err := s.opts.Cache.Reserve(d.spec.Name)
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
		if err := logs.MakeDirectory(d.pod.Meta.Config.GetLogDirectory(), filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("sandbox_config.log_directory and config.log_path: %w", err)
		}
	}
	// Step 1: the engine has the container, with the CRI metadata in its labels.
	id, err := s.createInEngine(ctx, d)
	if err != nil {
		return "", err
	}
	// Step 2: plugins adjust it.
	if err := s.adjust(ctx, d, id); err != nil {
		return "", errors.Join(err, s.unmake(ctx, d.pod, d.container(id)))
	}
	// Step 3: the checkpoint has its configuration. From here on it is no leftover.
	err = s.saveRecord(ctx, d.pod.ID, id, func(kept *checkpoint.Container) {
		kept.Config, kept.ImageRef = d.config, d.imageRef
	})
	if err != nil {
		return "", errors.Join(err, s.unmake(ctx, d.pod, d.container(id)))
	}
	return id, nil
}

// createInEngine makes the container. If ctx ends during the call, the engine may have made the container all the same.
// createInEngine then removes it by its name. After any other lost answer, the next Create of the name removes it, or
// the removal of the pod.
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
			log.G(ctx).WithError(undoErr).WithField("name", d.spec.Name).
				Warn("cannot remove container of an interrupted create, the next create of its name will")
		}
	}
	return "", err
}

// publish shows the new container in the cache. It fails if the pod is being stopped: the stop may have listed the
// pod's containers before the engine had this container.
func (s *Service) publish(ctx context.Context, sandboxID, id string) (*state.Container, error) {
	c, err := s.opts.Cache.RefreshContainer(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("looking at the new container: %w", err)
	}
	_, err = s.readyPod(sandboxID)
	return c, err
}

// unmake undoes a Create that has asked plugins, even if ctx has ended. The caller has called Plugins.Block. unmake
// drops the record before it removes the container: a container without a record is a leftover. If the engine does not
// remove the container, the next Create of the name or the removal of the pod does.
func (s *Service) unmake(ctx context.Context, pod *state.Pod, c *state.Container) error {
	s.tellUndone(ctx, pod, c)
	settle, cancel := settling(ctx)
	defer cancel()
	recordErr := s.dropRecord(settle, c.SandboxID, c.ID)
	err := s.discard(settle, c.ID)
	if err == nil {
		s.unfinished.Delete(c.Meta.Name)
	}
	if err = errors.Join(recordErr, err); err != nil {
		return fmt.Errorf("rolling back: %w", err)
	}
	return nil
}
