package podspec

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/cgroup"
	"github.com/criadapter/criadapter/kubelet/model"
	"github.com/criadapter/criadapter/kubelet/volumekinds"
	"github.com/criadapter/criadapter/kubelet/volumemanager"
)

// Options configure a Generator. All functions but FirstUserID and Services are required.
type Options struct {
	// NodeName is this node's name, for the downward API.
	NodeName string
	// NodeIPs returns this node's addresses, for status.hostIP and status.hostIPs; the primary one first.
	NodeIPs func() []string
	// RootDir is the kubelet's root, PodLogsDir the root of the container logs.
	RootDir, PodLogsDir string
	// Owner becomes model.LabelOwner.
	Owner string
	// Volumes has the paths of a pod's volumes on the host.
	Volumes *volumemanager.Manager
	// Objects has the config maps and secrets for environment variables.
	Objects volumekinds.Objects
	// Cgroups names the pods' cgroups. Nil leaves them to the runtime.
	Cgroups *cgroup.Manager
	// Host describes the machine's cgroups and memory.
	Host cgroup.Host
	// Allocatable returns the node's allocatable resources, for the downward API.
	Allocatable func() v1.ResourceList
	// ClusterDNS and ClusterDomain are for dnsPolicy ClusterFirst. Without ClusterDNS, ClusterFirst means Default.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is the file for dnsPolicy Default. Empty means /etc/resolv.conf. Pods cannot reach the stub of
	// systemd-resolved. If the file names only the stub, it is replaced by the file with the real servers.
	ResolvConf string
	// SeccompDefault applies the runtime's seccomp profile to containers without one, like the kubelet's
	// --seccomp-default. Otherwise they are unconfined.
	SeccompDefault bool
	// RecursiveReadOnly says that the runtime supports recursive read-only mounts.
	RecursiveReadOnly bool
	// FirstUserID returns the first of the host's user and group ids for a pod with hostUsers: false. An error refuses
	// the pod. Nil refuses all such pods.
	FirstUserID func(ctx context.Context, pod *v1.Pod) (uint32, error)
	// SwapBehavior says how much swap containers have; empty means NoSwap.
	SwapBehavior SwapBehavior
	// Services returns the environment variables of services. Nil means none.
	Services func(*v1.Pod) (map[string]string, error)
	// Devices adds the devices of device plugins to a container's configuration.
	Devices func(ctx context.Context, pod *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error
	// CPUs sets the CPUs of a container in its configuration.
	CPUs func(pod *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error
	// Warn is called when a pod runs without a part of its spec.
	Warn func(pod *v1.Pod, reason, message string)
}

// Generator makes CRI configurations. It is safe for concurrent use.
type Generator struct {
	opts Options
}

// New makes a generator.
func New(opts Options) *Generator {
	if opts.FirstUserID == nil {
		opts.FirstUserID = func(context.Context, *v1.Pod) (uint32, error) {
			return 0, fmt.Errorf("spec.hostUsers: pods have no user namespaces here: %w", errdefs.ErrNotImplemented)
		}
	}
	if opts.Services == nil {
		opts.Services = func(*v1.Pod) (map[string]string, error) { return nil, nil }
	}
	return &Generator{opts: opts}
}

// ContainerInput has the inputs of a container's configuration.
type ContainerInput struct {
	Pod       *v1.Pod
	Container *v1.Container
	Kind      model.Kind
	// Attempt counts the container's restarts.
	Attempt uint32
	// ImageID is the runtime's id of the image to run. Image describes that image, for runAsNonRoot.
	ImageID string
	Image   *runtimeapi.Image
	// ImageVolumes has the images of the pod's image volumes by the volume's name. The images that the container mounts
	// must be present.
	ImageVolumes map[string]*runtimeapi.ImageSpec
	// PodIPs are the sandbox's addresses, the primary one first.
	PodIPs []string
	// TargetID is the id of the container whose process namespace an ephemeral container joins, or "".
	TargetID string
}
