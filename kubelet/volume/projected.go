package volume

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
)

// privateToken is the mode of a token when the pod says who is to read it; otherwise it has the mode of the other files.
const privateToken fs.FileMode = 0o600

// projected joins several sources in one volume; of two files of one path the later one is seen.
func (m *Manager) projected(ctx context.Context, pod *v1.Pod, volume *v1.ProjectedVolumeSource) (content, error) {
	files, otherwise := content{}, mode(volume.DefaultMode)
	for i := range volume.Sources {
		more, err := m.projection(ctx, pod, &volume.Sources[i], otherwise)
		if err != nil {
			return nil, fmt.Errorf("sources[%d]: %w", i, err)
		}
		maps.Copy(files, more)
	}
	return files, nil
}

func (m *Manager) projection(ctx context.Context, pod *v1.Pod, source *v1.VolumeProjection, otherwise fs.FileMode) (content, error) {
	switch {
	case source.ConfigMap != nil:
		return m.configMap(pod, source.ConfigMap.Name, keys{items: source.ConfigMap.Items, mode: otherwise, optional: source.ConfigMap.Optional})
	case source.Secret != nil:
		return m.secret(pod, source.Secret.Name, keys{items: source.Secret.Items, mode: otherwise, optional: source.Secret.Optional})
	case source.DownwardAPI != nil:
		return m.fields(pod, source.DownwardAPI.Items, otherwise)
	case source.ServiceAccountToken != nil:
		return m.token(ctx, pod, source.ServiceAccountToken, otherwise)
	case source.ClusterTrustBundle != nil:
		return nil, fmt.Errorf("clusterTrustBundle: the kubelet core does not read trust bundles: %w", errdefs.ErrNotImplemented)
	case source.PodCertificate != nil:
		return nil, fmt.Errorf("podCertificate: the kubelet core does not request certificates: %w", errdefs.ErrNotImplemented)
	default:
		return nil, fmt.Errorf("one of configMap, secret, downwardAPI and serviceAccountToken is required: %w", errdefs.ErrInvalidArgument)
	}
}

// token makes a file of a service account token. Where the pod names the user or group that runs it, nobody else can
// read the token.
func (m *Manager) token(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection, otherwise fs.FileMode) (content, error) {
	if m.opts.Tokens == nil {
		return nil, fmt.Errorf("serviceAccountToken: tokens come from an API server, and there is none: %w", errdefs.ErrNotImplemented)
	}
	token, err := m.opts.Tokens.Token(ctx, pod, source)
	if err != nil {
		return nil, err
	}
	made := file{data: []byte(token), mode: otherwise, owner: onlyUser(pod)}
	if made.owner != nil || fsGroup(pod) != nil {
		made.mode = privateToken
	}
	return content{filepath.Clean(source.Path): made}, nil
}

// onlyUser is the user that all of the pod's containers are to run as; nil when they differ or one does not say.
func onlyUser(pod *v1.Pod) *int64 {
	var whole, only *int64
	if pod.Spec.SecurityContext != nil {
		whole = pod.Spec.SecurityContext.RunAsUser
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			user := whole
			if own := containers[i].SecurityContext; own != nil && own.RunAsUser != nil {
				user = own.RunAsUser
			}
			if user == nil || only != nil && *only != *user {
				return nil
			}
			only = user
		}
	}
	return only
}
