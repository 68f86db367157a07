package podspec

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/criadapter/criadapter/kubelet/hostsfile"
)

// hostsPath is the hosts file on the host and in containers.
const hostsPath = "/etc/hosts"

// hostsMount writes the pod's hosts file and returns its mount. It returns nil if the container mounts a volume at
// hostsPath, or if the pod has no address yet.
func (g *Generator) hostsMount(in ContainerInput) (*runtimeapi.Mount, error) {
	if len(in.PodIPs) == 0 && !in.Pod.Spec.HostNetwork {
		return nil, nil
	}
	for _, mount := range in.Container.VolumeMounts {
		if filepath.Clean(mount.MountPath) == hostsPath {
			return nil, nil
		}
	}
	content, err := g.hosts(in.Pod, in.PodIPs)
	if err != nil {
		return nil, err
	}
	path := hostsfile.Path(g.opts.RootDir, in.Pod.UID)
	if err := hostsfile.Write(path, content); err != nil {
		return nil, fmt.Errorf("hosts file: %w", err)
	}
	return &runtimeapi.Mount{ContainerPath: hostsPath, HostPath: path, SelinuxRelabel: selinuxEnabled()}, nil
}

// hosts returns the content of the pod's hosts file: the pod's addresses and name, and its aliases. In the host's
// network the host's own file replaces the addresses.
func (g *Generator) hosts(pod *v1.Pod, ips []string) ([]byte, error) {
	var text bytes.Buffer
	if pod.Spec.HostNetwork {
		text.WriteString("# Kubernetes-managed hosts file (host network).\n")
		content, err := os.ReadFile(hostsPath)
		if err != nil {
			return nil, err
		}
		text.Write(content)
	} else {
		name, err := g.hostName(pod)
		if err != nil {
			return nil, err
		}
		text.WriteString(
			"# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
				"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		for _, ip := range ips {
			if name.domain != "" {
				fmt.Fprintf(&text, "%s\t%s.%s\t%s\n", ip, name.short, name.domain, name.short)
			} else {
				fmt.Fprintf(&text, "%s\t%s\n", ip, name.short)
			}
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		text.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&text, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	return text.Bytes(), nil
}
