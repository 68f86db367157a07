package translate

import (
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// maxHostname is the kernel's limit for a host name, in bytes.
	maxHostname = 64
	// maxHostnameLabel is RFC 1035's limit for one label of a name, in bytes.
	maxHostnameLabel = 63

	// fallbackHostname is for pods whose names have no usable character.
	fallbackHostname = "pod"
)

// Hostname returns the host name of a pod with a UTS namespace of its own. CRI allows an empty name only on the host's
// network, but crictl also sends it for other pods. Their host name is then made from the pod's name. On the host's
// network a pod has the node's name, and Hostname returns "".
func Hostname(config *runtimeapi.PodSandboxConfig) string {
	if UsesHostNetwork(config) {
		return ""
	}
	if config.GetHostname() != "" {
		return config.GetHostname()
	}
	return hostnameFrom(config.GetMetadata().GetName())
}

// hostnameFrom makes a host name from any text. It replaces all characters but letters, digits and dots, and cuts the
// name to a label's length as the kubelet cuts pod names. If the result is invalid, it replaces the dots, too.
func hostnameFrom(name string) string {
	label := strings.Map(func(r rune) rune {
		if r < 0x80 && isAlphanumeric(byte(r)) || r == '.' {
			return r
		}
		return '-'
	}, name)
	label = strings.Trim(label[:min(len(label), maxHostnameLabel)], "-.")
	switch {
	case label == "":
		return fallbackHostname
	case checkHostname("", label) != nil: // its dots make it invalid
		return strings.ReplaceAll(label, ".", "-")
	default:
		return label
	}
}

// checkHostname accepts dot-separated labels of letters, digits, hyphens and underscores. A dot may be at the end: a
// pod with setHostnameAsFQDN has such a name if the kubelet has no clusterDomain. Names that are too long are refused,
// not cut.
func checkHostname(field, name string) error {
	if name == "" {
		return nil
	}
	if len(name) > maxHostname {
		return invalid(field, "has %d bytes, a host name has at most %d", len(name), maxHostname)
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		switch {
		case label == "":
			return invalid(field, "%q has an empty label", name)
		case len(label) > maxHostnameLabel:
			return invalid(field, "%q has a label of %d bytes, the most is %d", name, len(label), maxHostnameLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return invalid(field, "%q has a label that begins or ends with a hyphen", name)
		}
		for i := range len(label) {
			if c := label[i]; !isAlphanumeric(c) && c != '-' && c != '_' {
				return invalid(field, "%q holds %q, use letters, digits, hyphens, underscores and dots", name, c)
			}
		}
	}
	return nil
}
