package podspec

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
)

// Container returns the configuration of one container. The container's files on disk (hosts file, termination message,
// subPaths) exist when Container returns. The error becomes the container's CreateContainerConfigError, so it names the
// field, config map, key or path. The files stay until the pod is gone, because a restarted container mounts them.
func (g *Generator) Container(ctx context.Context, in ContainerInput) (*runtimeapi.ContainerConfig, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	env, err := g.environment(in)
	if err != nil {
		return nil, err
	}
	security, err := g.security(in)
	if err != nil {
		return nil, err
	}
	mounts, err := g.mounts(in, env)
	if err != nil {
		return nil, err
	}
	users, err := g.userNamespace(ctx, in.Pod)
	if err != nil {
		return nil, err
	}
	security.NamespaceOptions.UsernsOptions = users
	mapMounts(mounts, users)
	annotations, err := containerAnnotations(in)
	if err != nil {
		return nil, err
	}
	signal, err := stopSignal(in.Container)
	if err != nil {
		return nil, err
	}
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: in.Container.Name, Attempt: in.Attempt},
		Image:    &runtimeapi.ImageSpec{Image: in.ImageID, UserSpecifiedImage: in.Container.Image},
		Command:  expandAll(in.Container.Command, env.lookup), Args: expandAll(in.Container.Args, env.lookup),
		WorkingDir: in.Container.WorkingDir, Envs: env.keyValues(), Mounts: mounts,
		Labels: g.containerLabels(in), Annotations: annotations,
		LogPath: model.ContainerLogPath(in.Container.Name, in.Attempt),
		Stdin:   in.Container.Stdin, StdinOnce: in.Container.StdinOnce, Tty: in.Container.TTY,
		Linux:      &runtimeapi.LinuxContainerConfig{SecurityContext: security, Resources: g.resources(in)},
		StopSignal: signal,
	}
	if err := g.opts.CPUs(in.Pod, in.Container, config); err != nil {
		return nil, err
	}
	return config, g.opts.Devices(ctx, in.Pod, in.Container, config)
}

func (g *Generator) containerLabels(in ContainerInput) map[string]string {
	labels := g.identity(in.Pod)
	labels[model.LabelContainerName] = in.Container.Name
	return labels
}

// containerAnnotations returns the data that a restarted kubelet needs about the container, even if no source lists its
// pod any more.
func containerAnnotations(in ContainerInput) (map[string]string, error) {
	c := in.Container
	annotations := map[string]string{
		model.AnnotationHash:                     model.ContainerHash(c),
		model.AnnotationRestartCount:             strconv.FormatUint(uint64(in.Attempt), 10),
		model.AnnotationTerminationMessagePath:   c.TerminationMessagePath,
		model.AnnotationTerminationMessagePolicy: string(c.TerminationMessagePolicy),
	}
	resources, err := json.Marshal(v1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits})
	if err != nil {
		return nil, err
	}
	annotations[model.AnnotationResources] = string(resources)
	if grace := in.Pod.DeletionGracePeriodSeconds; grace != nil {
		annotations[model.AnnotationPodDeletionGracePeriod] = strconv.FormatInt(*grace, 10)
	}
	if grace := in.Pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		annotations[model.AnnotationPodTerminationGrace] = strconv.FormatInt(*grace, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		hook, err := json.Marshal(c.Lifecycle.PreStop)
		if err != nil {
			return nil, err
		}
		annotations[model.AnnotationPreStopHandler] = string(hook)
	}
	if len(c.Ports) > 0 {
		ports, err := json.Marshal(c.Ports)
		if err != nil {
			return nil, err
		}
		annotations[model.AnnotationContainerPorts] = string(ports)
	}
	return annotations, nil
}

// stopSignal returns the signal of lifecycle.stopSignal. Without one the runtime uses the image's.
func stopSignal(c *v1.Container) (runtimeapi.Signal, error) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT, nil
	}
	// Protocol buffer names have no + and -: SIGRTMIN+3 is SIGRTMINPLUS3.
	name := strings.NewReplacer("+", "PLUS", "-", "MINUS").Replace(string(*c.Lifecycle.StopSignal))
	number, ok := runtimeapi.Signal_value["SIGNAL_"+name]
	if !ok {
		return 0, fmt.Errorf("lifecycle.stopSignal: %q is not a signal: %w", *c.Lifecycle.StopSignal,
			errdefs.ErrInvalidArgument)
	}
	return runtimeapi.Signal(number), nil
}
