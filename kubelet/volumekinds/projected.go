package volumekinds

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/criadapter/criadapter/kubelet/fieldcheck"
	"github.com/criadapter/criadapter/kubelet/model"
)

// projected joins several sources in one volume. Of two files with the same path, the later one wins.
var projected = Kind{
	Field: "projected",
	Honoured: slices.Concat([]string{"defaultMode"}, projectedKeys("configMap"), projectedKeys("secret"),
		downwardFields("sources[].downwardAPI."),
		prefixed("sources[].serviceAccountToken.", "audience", "expirationSeconds", "path")),
	Directory: "projected",
	InMemory:  true,
	setDefaults: func(source *v1.VolumeSource) {
		fillPointer(&source.Projected.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	},
	validate: validateTokens,
	references: func(source *v1.VolumeSource) []reference {
		var found []reference
		for i := range source.Projected.Sources {
			if of := source.Projected.Sources[i].ConfigMap; of != nil {
				found = append(found, reference{ConfigMaps, of.Name})
			}
			if of := source.Projected.Sources[i].Secret; of != nil {
				found = append(found, reference{Secrets, of.Name})
			}
		}
		return found
	},
	Files: func(ctx context.Context, in Input, source *v1.VolumeSource) (Files, error) {
		files, otherwise := Files{}, mode(source.Projected.DefaultMode)
		for i := range source.Projected.Sources {
			more, err := in.projection(ctx, &source.Projected.Sources[i], otherwise)
			if err != nil {
				return nil, fmt.Errorf("sources[%d]: %w", i, err)
			}
			maps.Copy(files, more)
		}
		return files, nil
	},
	describe: func(source *v1.VolumeSource) string {
		return fmt.Sprintf("projected from %d sources", len(source.Projected.Sources))
	},
}

// projectedKeys are the supported fields of a config map or a secret as a source.
func projectedKeys(kind string) []string {
	prefix := "sources[]." + kind + "."
	return append(keyFields(prefix), prefixed(prefix, "name", "optional")...)
}

const (
	// minTokenLife is the API server's shortest lifetime of a service account token, in seconds.
	minTokenLife = 10 * 60
	// privateToken is the mode of a token if all containers run as the same user, or the pod has an fsGroup. Otherwise
	// the token has the volume's mode.
	privateToken fs.FileMode = 0o600
)

// validateTokens validates the service account tokens of a projected volume. A static pod gets no token, because the
// API server does not have the pod.
func validateTokens(pod *v1.Pod, source *v1.VolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range source.Projected.Sources {
		token, at := source.Projected.Sources[i].ServiceAccountToken, at.Child("sources").Index(i).
			Child("serviceAccountToken")
		if token == nil {
			continue
		}
		if model.IsStatic(pod) {
			errs = append(errs, field.Forbidden(at, "a static pod has no service account"))
			continue
		}
		errs = append(errs, fieldcheck.Required(at.Child("path"), token.Path)...)
		errs = append(errs, fieldcheck.NoBacksteps(at.Child("path"), token.Path)...)
		if token.ExpirationSeconds != nil {
			errs = append(errs,
				fieldcheck.AtLeast(at.Child("expirationSeconds"), *token.ExpirationSeconds, minTokenLife)...)
		}
	}
	return errs
}

func (in Input) projection(ctx context.Context, source *v1.VolumeProjection, otherwise fs.FileMode) (Files, error) {
	switch {
	case source.ConfigMap != nil:
		return in.configMap(source.ConfigMap.Name,
			keys{items: source.ConfigMap.Items, mode: otherwise, optional: source.ConfigMap.Optional})
	case source.Secret != nil:
		return in.secret(source.Secret.Name,
			keys{items: source.Secret.Items, mode: otherwise, optional: source.Secret.Optional})
	case source.DownwardAPI != nil:
		return in.fields(source.DownwardAPI.Items, otherwise)
	case source.ServiceAccountToken != nil:
		return in.token(ctx, source.ServiceAccountToken, otherwise)
	case source.ClusterTrustBundle != nil:
		return nil, fmt.Errorf("clusterTrustBundle: the kubelet core does not read trust bundles: %w",
			errdefs.ErrNotImplemented)
	case source.PodCertificate != nil:
		return nil, fmt.Errorf("podCertificate: the kubelet core does not request certificates: %w",
			errdefs.ErrNotImplemented)
	default:
		return nil, fmt.Errorf("one of configMap, secret, downwardAPI and serviceAccountToken is required: %w",
			errdefs.ErrInvalidArgument)
	}
}

// token makes a file of a service account token. If all containers run as the same user, or the pod has an fsGroup,
// only the file's owner and the fsGroup can read it.
func (in Input) token(
	ctx context.Context, source *v1.ServiceAccountTokenProjection, otherwise fs.FileMode,
) (Files, error) {
	if in.Tokens == nil {
		return nil, fmt.Errorf("serviceAccountToken: tokens come from an API server, and there is none: %w",
			errdefs.ErrNotImplemented)
	}
	token, err := in.Tokens.Token(ctx, in.Pod, source)
	if err != nil {
		return nil, err
	}
	made := File{Data: []byte(token), Mode: otherwise, Owner: onlyUser(in.Pod)}
	if security := in.Pod.Spec.SecurityContext; made.Owner != nil || security != nil && security.FSGroup != nil {
		made.Mode = privateToken
	}
	return Files{filepath.Clean(source.Path): made}, nil
}

// onlyUser returns the user of all of the pod's containers, or nil if the users differ or a container sets none.
func onlyUser(pod *v1.Pod) *int64 {
	var only *int64
	whole := ptr.Deref(pod.Spec.SecurityContext, v1.PodSecurityContext{}).RunAsUser
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			user := cmp.Or(ptr.Deref(containers[i].SecurityContext, v1.SecurityContext{}).RunAsUser, whole)
			if user == nil || only != nil && *only != *user {
				return nil
			}
			only = user
		}
	}
	return only
}
