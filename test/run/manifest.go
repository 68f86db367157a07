package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"
)

// manifest is the part of a Kubernetes Pod that this small client can bring
// up. Anything else in a file is refused by name, not ignored.
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		HostNetwork bool        `json:"hostNetwork"`
		Containers  []container `json:"containers"`
	} `json:"spec"`
}

type container struct {
	Name            string   `json:"name"`
	Image           string   `json:"image"`
	ImagePullPolicy string   `json:"imagePullPolicy"`
	Command         []string `json:"command"`
	Args            []string `json:"args"`
	WorkingDir      string   `json:"workingDir"`
	Env             []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	Ports []struct {
		ContainerPort int32  `json:"containerPort"`
		HostPort      int32  `json:"hostPort"`
		Protocol      string `json:"protocol"`
	} `json:"ports"`
	Resources struct {
		Limits struct {
			CPU    string `json:"cpu"`
			Memory string `json:"memory"`
		} `json:"limits"`
	} `json:"resources"`
}

// readPod reads one pod from a YAML file.
func readPod(path string) (*manifest, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pod := &manifest{}
	if err := yaml.UnmarshalStrict(raw, pod); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return nil, fmt.Errorf("%s: want apiVersion v1, kind Pod", path)
	}
	if pod.Metadata.Name == "" || len(pod.Spec.Containers) == 0 {
		return nil, fmt.Errorf("%s: metadata.name and spec.containers are needed", path)
	}
	if pod.Metadata.Namespace == "" {
		pod.Metadata.Namespace = "default"
	}
	for i, c := range pod.Spec.Containers {
		if c.Name == "" || c.Image == "" {
			return nil, fmt.Errorf("%s: spec.containers[%d]: name and image are needed", path, i)
		}
	}
	return pod, nil
}

// sandbox is the pod in CRI's terms.
func (m *manifest) sandbox(uid, logDir string) (*runtimeapi.PodSandboxConfig, error) {
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: m.Metadata.Name, Namespace: m.Metadata.Namespace, Uid: uid},
		Hostname:     m.Metadata.Name,
		LogDirectory: logDir,
		Labels: map[string]string{
			"io.kubernetes.pod.name": m.Metadata.Name, "io.kubernetes.pod.namespace": m.Metadata.Namespace, "io.kubernetes.pod.uid": uid,
		},
		Annotations: m.Metadata.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
		}},
	}
	for key, value := range m.Metadata.Labels {
		config.Labels[key] = value
	}
	if m.Spec.HostNetwork {
		config.Hostname = ""
		config.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	}
	for _, c := range m.Spec.Containers {
		for _, port := range c.Ports {
			protocol, ok := runtimeapi.Protocol_value[strings.ToUpper(port.Protocol)]
			if !ok && port.Protocol != "" {
				return nil, fmt.Errorf("container %s: protocol %q is none of TCP, UDP, SCTP", c.Name, port.Protocol)
			}
			config.PortMappings = append(config.PortMappings, &runtimeapi.PortMapping{
				Protocol: runtimeapi.Protocol(protocol), ContainerPort: port.ContainerPort, HostPort: port.HostPort,
			})
		}
	}
	return config, nil
}

// config is the container in CRI's terms.
func (c container) config(imageID string) (*runtimeapi.ContainerConfig, error) {
	resources, err := c.limits()
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", c.Name, err)
	}
	config := &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: c.Name},
		Image:      &runtimeapi.ImageSpec{Image: imageID, UserSpecifiedImage: c.Image},
		Command:    c.Command,
		Args:       c.Args,
		WorkingDir: c.WorkingDir,
		LogPath:    c.Name + "/0.log",
		Labels:     map[string]string{"io.kubernetes.container.name": c.Name},
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: resources,
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
			},
		},
	}
	for _, env := range c.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: env.Name, Value: []byte(env.Value)})
	}
	return config, nil
}

func (c container) limits() (*runtimeapi.LinuxContainerResources, error) {
	const period = 100_000 // microseconds, the kernel's default
	resources := &runtimeapi.LinuxContainerResources{}
	if c.Resources.Limits.CPU != "" {
		cores, err := quantity(c.Resources.Limits.CPU, map[string]float64{"m": 1e-3})
		if err != nil {
			return nil, fmt.Errorf("resources.limits.cpu: %w", err)
		}
		resources.CpuPeriod, resources.CpuQuota = period, int64(math.Ceil(cores*period))
	}
	if c.Resources.Limits.Memory != "" {
		bytes, err := quantity(c.Resources.Limits.Memory, map[string]float64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30})
		if err != nil {
			return nil, fmt.Errorf("resources.limits.memory: %w", err)
		}
		resources.MemoryLimitInBytes = int64(bytes)
	}
	return resources, nil
}

// quantity reads a number with one of the given suffixes or none.
func quantity(text string, suffixes map[string]float64) (float64, error) {
	factor := 1.0
	for suffix, f := range suffixes {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, factor = number, f
			break
		}
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number <= 0 || math.IsInf(number, 0) {
		return 0, errors.New("not a positive quantity: " + text)
	}
	return number * factor, nil
}
