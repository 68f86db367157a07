package play

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/criadapter/criadapter/kubelet/manifest"
	"github.com/criadapter/criadapter/kubelet/model"
)

// Set has the objects of some files. pods includes the pods of deployments, daemon sets and jobs.
type Set struct {
	pods     []*v1.Pod
	objects  manifest.Objects
	services []*v1.Service
	// notes says what differs from a cluster.
	notes []string
}

// Read reads files, and in for "-". An unsupported object or field is an error that names file, document and field.
// Nothing is ignored.
func Read(files []string, in io.Reader) (*Set, error) {
	set := &Set{}
	var errs []error
	for _, file := range files {
		content, err := readFile(file, in)
		if err == nil {
			err = set.add(content)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return set, set.complete()
}

func readFile(file string, in io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(file)
}

// add adds the documents of one file.
func (s *Set) add(content []byte) error {
	var errs []error
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		}
		if err == nil {
			err = s.document(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("document %d: %w", number, err))
		}
	}
}

func (s *Set) document(text []byte) error {
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return fmt.Errorf("%s: %w", strings.TrimPrefix(err.Error(), "yaml: "), errdefs.ErrInvalidArgument)
	}
	if string(raw) == "null" {
		return nil
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

// complete gives services their host ports, and returns the errors of pods that cannot run.
func (s *Set) complete() error {
	if len(s.pods) == 0 {
		return fmt.Errorf("there is no Pod, Deployment, DaemonSet or Job: %w", errdefs.ErrInvalidArgument)
	}
	var errs []error
	names := map[string]bool{}
	for _, pod := range s.pods {
		manifest.SetDefaults(pod)
		if key := pod.Namespace + "/" + pod.Name; names[key] {
			errs = append(errs, fmt.Errorf("pod %s: two of that name: %w", pod.Name, errdefs.ErrInvalidArgument))
		} else {
			names[key] = true
		}
		if pod.Spec.Hostname == "" && len(pod.Name) < 64 && !strings.Contains(pod.Name, ".") {
			pod.Spec.Hostname = pod.Name // without the node's name, the suffix of a static pod's name
		}
	}
	for _, service := range s.services {
		if err := s.publish(service); err != nil {
			errs = append(errs, fmt.Errorf("service %s: %w", service.Name, err))
		}
	}
	for _, pod := range s.pods {
		static := pod.DeepCopy() // the pod as the kubelet core will read it
		if err := errors.Join(manifest.Static(static, manifest.Origin{Source: model.SourceFile}),
			manifest.Validate(static)); err != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", pod.Name, err))
		}
	}
	return errors.Join(errs...)
}
