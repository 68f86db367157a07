package podspec

import (
	"context"
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volume"
)

// Options configure a Generator.
type Options struct {
	// NodeName is this node's name, for the downward API and the host's hosts file entries.
	NodeName string
	// NodeIPs are this node's addresses, for status.hostIP and status.hostIPs; the primary one first.
	NodeIPs []string
	// RootDir is the kubelet's root, PodLogsDir the root of the container logs.
	RootDir, PodLogsDir string
	// Owner becomes model.LabelOwner.
	Owner string
	// Volumes tells where a pod's volumes are on the host.
	Volumes *volume.Manager
	// Objects answers environment variables from config maps and secrets.
	Objects volume.Objects
	// ClusterDNS and ClusterDomain serve dnsPolicy ClusterFirst; without them it becomes Default.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is the file behind dnsPolicy Default. Empty means /etc/resolv.conf.
	ResolvConf string
}

// Generator makes CRI configurations. It is safe for concurrent use.
type Generator struct {
	opts Options
}

// New makes a generator.
func New(opts Options) *Generator { return &Generator{opts: opts} }

// Sandbox is the configuration of the pod's sandbox. It depends on the pod and attempt alone, so that the CreateContainer
// calls that follow may pass the same one again.
func (g *Generator) Sandbox(_ context.Context, pod *v1.Pod, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt},
		Hostname:     pod.Name,
		LogDirectory: model.PodLogDirectory(g.opts.PodLogsDir, pod),
		Labels:       g.podLabels(pod),
		Annotations:  pod.Annotations,
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}, nil
}

func (g *Generator) podLabels(pod *v1.Pod) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, pod.Labels)
	maps.Copy(labels, map[string]string{
		model.LabelPodName: pod.Name, model.LabelPodNamespace: pod.Namespace, model.LabelPodUID: string(pod.UID),
		model.LabelOwner: g.opts.Owner,
	})
	return labels
}

// ContainerInput is what a container's configuration is made of.
type ContainerInput struct {
	Pod       *v1.Pod
	Container *v1.Container
	Kind      model.Kind
	// Attempt counts the container's restarts.
	Attempt uint32
	// ImageID is the runtime's identity of the image, to run; Image is its description, for runAsNonRoot.
	ImageID string
	Image   *runtimeapi.Image
	// PodIPs are the sandbox's addresses, the primary one first.
	PodIPs []string
}

// Container is the configuration of one container. What the container needs on disk (its hosts file, termination message,
// subPaths) exists when it returns. The error is shown to the user as the container's CreateContainerConfigError, so it
// names the field, config map, key or path. Undo, never nil, releases what is only needed until the container is started.
func (g *Generator) Container(_ context.Context, in ContainerInput) (config *runtimeapi.ContainerConfig, undo func(), err error) {
	config = &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: in.Container.Name, Attempt: in.Attempt},
		Image:    &runtimeapi.ImageSpec{Image: in.ImageID, UserSpecifiedImage: in.Container.Image},
		Command:  in.Container.Command, Args: in.Container.Args, WorkingDir: in.Container.WorkingDir,
		LogPath: model.ContainerLogPath(in.Container.Name, in.Attempt),
		Stdin:   in.Container.Stdin, StdinOnce: in.Container.StdinOnce, Tty: in.Container.TTY,
		Labels: map[string]string{
			model.LabelPodName: in.Pod.Name, model.LabelPodNamespace: in.Pod.Namespace, model.LabelPodUID: string(in.Pod.UID),
			model.LabelContainerName: in.Container.Name, model.LabelOwner: g.opts.Owner,
		},
		Annotations: map[string]string{
			model.AnnotationHash:                     model.ContainerHash(in.Container),
			model.AnnotationRestartCount:             strconv.FormatUint(uint64(in.Attempt), 10),
			model.AnnotationTerminationMessagePath:   in.Container.TerminationMessagePath,
			model.AnnotationTerminationMessagePolicy: string(in.Container.TerminationMessagePolicy),
		},
		Linux: &runtimeapi.LinuxContainerConfig{},
	}
	for _, env := range in.Container.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: env.Name, Value: []byte(env.Value)})
	}
	return config, func() {}, nil
}
