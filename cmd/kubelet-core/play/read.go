package play

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"

	"github.com/criadapter/criadapter/internal/yamldoc"
	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Set has the objects of some files. pods includes the pods of deployments, daemon sets and jobs.
type Set struct {
	pods     []*v1.Pod
	objects  manifest.Objects
	services []*v1.Service
	// notes are messages about differences from a cluster.
	notes []string
}

// Read reads the files. An unsupported object or field is an error that names file, document and field. Nothing is
// ignored.
func Read(ctx context.Context, in Input) (*Set, error) {
	set, configMaps := &Set{}, &Set{}
	err := errors.Join(set.addFiles(ctx, &in, in.Files), configMaps.addFiles(ctx, &in, in.ConfigMaps))
	if err != nil {
		return nil, err
	}
	if err := set.addConfigMaps(configMaps); err != nil {
		return nil, err
	}
	return set, set.complete(&in)
}

// ReadClaims returns the names of the PersistentVolumeClaims in the files, and of the claims that only their pods name.
func ReadClaims(ctx context.Context, in Input) ([]types.NamespacedName, error) {
	set := &Set{}
	err := set.addFiles(ctx, &in, in.Files)
	var names []types.NamespacedName
	for _, claim := range set.objects.Claims {
		names = append(names, types.NamespacedName{Namespace: namespaceOf(claim), Name: claim.Name})
	}
	for _, pod := range set.pods {
		for i := range pod.Spec.Volumes {
			claim := pod.Spec.Volumes[i].PersistentVolumeClaim
			if claim == nil {
				continue
			}
			name := types.NamespacedName{Namespace: namespaceOf(pod), Name: claim.ClaimName}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, err
}

// Grace is the longest grace period of the pods.
func (s *Set) Grace() time.Duration {
	var longest int64
	for _, pod := range s.pods {
		longest = max(longest, ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0))
	}
	return time.Duration(longest) * time.Second
}

func (s *Set) addFiles(ctx context.Context, in *Input, files []string) error {
	var errs []error
	for _, file := range files {
		content, err := in.read(ctx, file)
		if err == nil {
			err = s.add(content)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", shown(file), err))
		}
	}
	return errors.Join(errs...)
}

// addConfigMaps adds the config maps of the files of --configmap, which replace config maps of the same name.
func (s *Set) addConfigMaps(from *Set) error {
	maps := from.objects.ConfigMaps
	from.objects.ConfigMaps = nil
	if len(from.pods)+len(from.services) > 0 || !from.objects.Empty() {
		return fmt.Errorf("--configmap: the files have other objects than config maps: %w", errdefs.ErrInvalidArgument)
	}
	for _, m := range maps {
		s.objects.ConfigMaps = slices.DeleteFunc(s.objects.ConfigMaps, func(known *v1.ConfigMap) bool {
			return known.Name == m.Name && namespaceOf(known) == namespaceOf(m)
		})
	}
	s.objects.ConfigMaps = append(s.objects.ConfigMaps, maps...)
	return nil
}

// add adds the documents of one file.
func (s *Set) add(content []byte) error {
	var errs []error
	for i, text := range yamldoc.Split(content) {
		if err := s.document(text); err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", i+1, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Set) document(text []byte) error {
	raw, err := yamldoc.JSON(text)
	if err != nil || string(raw) == "null" {
		return err
	}
	return s.object(raw)
}

// object adds one object in JSON.
func (s *Set) object(raw []byte) error {
	var meta metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &meta); err != nil {
		return fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	if meta.APIVersion == "v1" {
		if known, err := s.objects.Decode(meta.Kind, raw); known {
			return err
		}
	}
	switch kind := meta.APIVersion + " " + meta.Kind; kind {
	case "v1 Pod":
		return manifest.Decode(raw, &s.pods)
	case "v1 Service":
		return manifest.Decode(raw, &s.services)
	case "apps/v1 Deployment":
		return s.deployment(raw)
	case "apps/v1 DaemonSet":
		return s.daemonSet(raw)
	case "batch/v1 Job":
		return s.job(raw)
	case "v1 List":
		return s.list(raw)
	default:
		return fmt.Errorf("apiVersion and kind: %q is none of v1 Pod, ConfigMap, Secret, PersistentVolume, "+
			"PersistentVolumeClaim, Service, List, apps/v1 Deployment, DaemonSet and batch/v1 Job: %w", kind,
			errdefs.ErrInvalidArgument)
	}
}

func (s *Set) list(raw []byte) error {
	var lists []*v1.List
	if err := manifest.Decode(raw, &lists); err != nil {
		return err
	}
	var errs []error
	for i, item := range lists[0].Items {
		if err := s.object(item.Raw); err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// complete adapts the pods to the command line, publishes ports, and returns the errors of pods that cannot run.
func (s *Set) complete(in *Input) error {
	if len(s.pods) == 0 {
		return fmt.Errorf("there is no Pod, Deployment, DaemonSet or Job: %w", errdefs.ErrInvalidArgument)
	}
	if err := in.adapt(s.pods); err != nil {
		return err
	}
	if err := s.name(); err != nil {
		return err
	}
	var errs []error
	for _, service := range s.services {
		if err := s.publishService(service); err != nil {
			errs = append(errs, fmt.Errorf("service %s: %w", service.Name, err))
		}
	}
	errs = append(errs, in.publish(s))
	for _, pod := range s.pods {
		static := pod.DeepCopy() // the pod as the kubelet core will read it
		if err := errors.Join(manifest.Static(static, manifest.Origin{Source: model.SourceFile}),
			manifest.Validate(static)); err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// name sets the pods' defaults and host names. It refuses two pods of one name or UID, and pods without containers. The
// kubelet core would also refuse the second pod, but the play would wait for that pod without end.
func (s *Set) name() error {
	var errs []error
	names, uids := map[string]bool{}, map[types.UID]bool{}
	for _, pod := range s.pods {
		manifest.SetDefaults(pod)
		key := pod.Namespace + "/" + pod.Name
		switch {
		case names[key]:
			errs = append(errs, fmt.Errorf("pod %s: two pods have this name: %w", pod.Name, errdefs.ErrInvalidArgument))
		case uids[pod.UID]:
			errs = append(errs, fmt.Errorf("pod %s: metadata.uid: another pod has %s, too; leave it out: %w", pod.Name,
				pod.UID, errdefs.ErrInvalidArgument))
		case len(pod.Spec.Containers) == 0:
			errs = append(errs, fmt.Errorf("pod %s: spec.containers: it is required: %w", pod.Name,
				errdefs.ErrInvalidArgument))
		}
		names[key], uids[pod.UID] = true, pod.UID != ""
		if pod.Spec.Hostname == "" && len(pod.Name) < 64 && !strings.Contains(pod.Name, ".") {
			pod.Spec.Hostname = pod.Name // the default is the static pod's name, which ends with the node's name
		}
	}
	return errors.Join(errs...)
}
