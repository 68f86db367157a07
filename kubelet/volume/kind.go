package volume

import v1 "k8s.io/api/core/v1"

// kind is the last part of a volume's folder, kubernetes.io~<kind>.
type kind string

const (
	unknown     kind = ""
	emptyDir    kind = "empty-dir"
	hostPath    kind = "host-path"
	configMap   kind = "configmap"
	secret      kind = "secret"
	downwardAPI kind = "downward-api"
	projected   kind = "projected"
	// image has no folder: its files come from the runtime.
	image kind = "image"
)

// kindOf tells volumes apart. One without any source is an emptyDir, as the API server defaults it.
func kindOf(volume *v1.Volume) kind {
	switch source := &volume.VolumeSource; {
	case source.EmptyDir != nil, *source == v1.VolumeSource{}:
		return emptyDir
	case source.HostPath != nil:
		return hostPath
	case source.ConfigMap != nil:
		return configMap
	case source.Secret != nil:
		return secret
	case source.DownwardAPI != nil:
		return downwardAPI
	case source.Projected != nil:
		return projected
	case source.Image != nil:
		return image
	default:
		return unknown
	}
}

func fsGroup(pod *v1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}
