package podspec

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxKernelName is Linux' limit for a host name, in bytes.
const maxKernelName = 64

// hostName has the names of a pod.
type hostName struct {
	// short is the name in the hosts file, and domain its suffix there, or "".
	short, domain string
	// kernel is the result of gethostname(2) in the pod.
	kernel string
}

// hostName derives the names from the pod's name, hostname, subdomain, setHostnameAsFQDN and hostnameOverride.
func (g *Generator) hostName(pod *v1.Pod) (hostName, error) {
	spec := &pod.Spec
	if spec.HostnameOverride != nil {
		return overridden(*spec.HostnameOverride)
	}
	name := hostName{short: shorten(pod.Name)}
	if spec.Hostname != "" {
		if problems := validation.IsDNS1123Label(spec.Hostname); len(problems) > 0 {
			return hostName{}, fmt.Errorf("spec.hostname: %s: %w", strings.Join(problems, "; "),
				errdefs.ErrInvalidArgument)
		}
		name.short = spec.Hostname
	}
	if spec.Subdomain != "" {
		if problems := validation.IsDNS1123Label(spec.Subdomain); len(problems) > 0 {
			return hostName{}, fmt.Errorf("spec.subdomain: %s: %w", strings.Join(problems, "; "),
				errdefs.ErrInvalidArgument)
		}
		name.domain = strings.TrimSuffix(spec.Subdomain+"."+pod.Namespace+".svc."+g.opts.ClusterDomain, ".")
	}
	name.kernel = name.short
	if isTrue(spec.SetHostnameAsFQDN) && name.domain != "" {
		name.kernel = name.short + "." + name.domain
		if len(name.kernel) > maxKernelName {
			return hostName{}, fmt.Errorf("spec.setHostnameAsFQDN: %s is longer than %d bytes: %w", name.kernel,
				maxKernelName, errdefs.ErrInvalidArgument)
		}
	}
	return name, nil
}

func overridden(override string) (hostName, error) {
	problems := validation.IsDNS1123Subdomain(override)
	if len(override) > maxKernelName {
		problems = append(problems, validation.MaxLenError(maxKernelName))
	}
	if len(problems) > 0 {
		return hostName{}, fmt.Errorf("spec.hostnameOverride: %s: %w", strings.Join(problems, "; "),
			errdefs.ErrInvalidArgument)
	}
	return hostName{short: override, kernel: override}, nil
}

// shorten cuts a pod's name to a DNS label, which must not end in a dash or dot.
func shorten(name string) string {
	if len(name) <= validation.DNS1123LabelMaxLength {
		return name
	}
	return strings.TrimRight(name[:validation.DNS1123LabelMaxLength], "-.")
}
