// Package generate makes the manifest of a pod from containers of Docker Engine, like podman kube generate. It reads
// the engine and changes nothing.
package generate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/docker"
)

// Options name the containers and the engine.
type Options struct {
	// Endpoint is the engine's socket, as unix:///path. Empty means unix:///var/run/docker.sock.
	Endpoint string
	// Containers are ids or names. Name is the pod's name. An empty name means the name of the first container.
	Containers []string
	Name       string
}

// source is a container and its image.
type source struct {
	container *container.InspectResponse
	image     *image.InspectResponse
	// volumes has the options of the container's local volumes by name. Volumes without options are left out.
	volumes map[string]map[string]string
	// cgroupVersion is the engine's version of cgroups.
	cgroupVersion int
	// name is the container's name in the pod.
	name string
}

// Write writes the manifest of a pod with the containers, and the claims of their named volumes. Comments at its
// beginning name the settings that a pod cannot have.
func Write(ctx context.Context, out io.Writer, opts Options) (err error) {
	engine, err := docker.Dial(docker.Options{Host: opts.Endpoint})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	var sources []source
	for _, name := range opts.Containers {
		found, err := inspect(ctx, engine, name)
		if err != nil {
			return err
		}
		sources = append(sources, found)
	}
	text, err := manifest(opts.Name, sources)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

func inspect(ctx context.Context, engine *docker.Client, name string) (s source, err error) {
	if s.container, err = engine.InspectContainer(ctx, name); err != nil {
		return s, err
	}
	if s.image, err = engine.InspectImage(ctx, s.container.Image); err != nil {
		return s, err
	}
	features, err := engine.Features(ctx)
	if err != nil {
		return s, err
	}
	s.cgroupVersion = features.CgroupVersion
	s.volumes = map[string]map[string]string{}
	for _, m := range s.container.Mounts {
		if m.Type != mount.TypeVolume || m.Driver != "local" {
			continue
		}
		volume, err := engine.InspectVolume(ctx, m.Name)
		if err != nil {
			return s, err
		}
		if len(volume.Options) > 0 {
			s.volumes[m.Name] = volume.Options
		}
	}
	return s, nil
}

// pod is the pod of the manifest.
type pod struct {
	v1.Pod
	volumes []*v1.PersistentVolume
	claims  []*v1.PersistentVolumeClaim
	// strict has the names of the containers whose user has a group. members says whether any container's user has no
	// group.
	strict  []string
	members bool
	// omitted describes the containers' settings that the pod cannot have.
	omitted []string
}

// leave adds a setting to omitted, if the container has it.
func (p *pod) leave(has bool, container, format string, args ...any) {
	if has {
		p.omitted = append(p.omitted, container+": "+fmt.Sprintf(format, args...))
	}
}

// manifest makes the YAML documents: the pod, its volumes and their claims.
func manifest(name string, sources []source) ([]byte, error) {
	p := &pod{Pod: v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}}
	for i := range sources {
		s := &sources[i]
		s.name = unused(validName(s.container.Name), func(name string) bool {
			return slices.ContainsFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Name == name })
		})
		if i == 0 {
			p.Name = validName(cmp.Or(name, s.container.Name))
			p.Labels = map[string]string{"app": p.Name}
		}
		p.share(s, i == 0)
		p.add(s)
	}
	p.groupsPolicy()
	var text bytes.Buffer
	for _, line := range p.omitted {
		fmt.Fprintf(&text, "# Left out: %s\n", line)
	}
	objects := []any{&p.Pod}
	for i := range p.claims {
		objects = append(objects, p.volumes[i], p.claims[i])
	}
	for i, object := range objects {
		if i > 0 {
			text.WriteString("---\n")
		}
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		text.Write(empty.ReplaceAll(document, nil))
	}
	return text.Bytes(), nil
}

// empty matches fields that the API's types marshal even if they are not set.
var empty = regexp.MustCompile(`(?m)^(?:  creationTimestamp: null|status: \{\}|    resources: \{\})\n`)

var invalid = regexp.MustCompile(`[^a-z0-9-]+`)

// validName makes a name of Docker a DNS label (RFC 1123). It is empty if no character of the name is valid.
func validName(name string) string {
	return withSuffix(strings.Trim(invalid.ReplaceAllString(strings.ToLower(name), "-"), "-"), "")
}

// withSuffix adds a suffix to a name. It shortens the name so that the result is not longer than a DNS label.
func withSuffix(name, suffix string) string {
	longest := validation.DNS1123LabelMaxLength - len(suffix)
	return strings.TrimRight(name[:min(len(name), longest)], "-") + suffix
}

// unused returns the name, with a number if it is used already. Different names in Docker may have one valid name.
func unused(name string, used func(string) bool) string {
	for i, first := 2, name; used(name); i++ {
		name = withSuffix(first, "-"+strconv.Itoa(i))
	}
	return name
}

// share sets the settings that all containers of a pod share. The first container decides. A different setting of
// another container is left out.
func (p *pod) share(s *source, first bool) {
	name, host, config := s.name, s.container.HostConfig, s.container.Config
	spec := v1.PodSpec{
		HostNetwork: host.NetworkMode.IsHost(), HostPID: host.PidMode.IsHost(), HostIPC: host.IpcMode.IsHost(),
		RestartPolicy: restartPolicy(host.RestartPolicy),
	}
	if !strings.HasPrefix(s.container.ID, config.Hostname) && !spec.HostNetwork {
		if len(validation.IsDNS1123Label(config.Hostname)) == 0 {
			spec.Hostname = config.Hostname
		} else {
			p.leave(true, name, "the host name %s: a pod's host name is a DNS label", config.Hostname)
		}
	}
	spec.DNSPolicy, spec.DNSConfig = dns(host)
	if first {
		p.Spec = spec
	} else {
		p.leave(spec.HostNetwork != p.Spec.HostNetwork, name, "the network %s: containers of a pod share one",
			host.NetworkMode)
		p.leave(spec.HostPID != p.Spec.HostPID, name, "the PID mode %q", host.PidMode)
		p.leave(spec.HostIPC != p.Spec.HostIPC, name, "the IPC mode %q: containers of a pod share one", host.IpcMode)
		p.leave(spec.RestartPolicy != p.Spec.RestartPolicy, name, "the restart policy %s: the pod's is %s",
			host.RestartPolicy.Name, p.Spec.RestartPolicy)
		p.leave(spec.Hostname != "" && spec.Hostname != p.Spec.Hostname, name, "the host name %s", spec.Hostname)
		p.leave(spec.DNSConfig != nil && !equality.Semantic.DeepEqual(spec.DNSConfig, p.Spec.DNSConfig), name,
			"the DNS configuration: containers of a pod share one")
	}
	p.network(name, host)
	p.aliases(name, host.ExtraHosts)
	p.sysctls(name, host.Sysctls)
	grace := int64(ptr.Deref(config.StopTimeout, 10)) // seconds, the engine's default
	p.Spec.TerminationGracePeriodSeconds = ptr.To(max(grace, ptr.Deref(p.Spec.TerminationGracePeriodSeconds, 0)))
}

func restartPolicy(policy container.RestartPolicy) v1.RestartPolicy {
	switch {
	case policy.IsAlways() || policy.IsUnlessStopped():
		return v1.RestartPolicyAlways
	case policy.IsOnFailure():
		return v1.RestartPolicyOnFailure
	default:
		return v1.RestartPolicyNever
	}
}
