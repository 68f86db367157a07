package translate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/containerd/errdefs"
)

// The labels that dockershim and cri-dockerd put on their containers. The first three are set on every container that
// criadapter creates, even to an empty value, so that an image cannot supply them.
const (
	// LabelKind is LabelKindSandbox or LabelKindContainer.
	LabelKind = "io.kubernetes.docker.type"
	// LabelSandboxID is the full id of a container's sandbox.
	LabelSandboxID = "io.kubernetes.sandbox.id"
	// LabelLogPath is the absolute path of a container's CRI log, empty for
	// none.
	LabelLogPath = "io.kubernetes.container.logpath"
	// LabelContainerName is "POD" on a sandbox. On a container it is a label of the client, the kubelet.
	LabelContainerName = "io.kubernetes.container.name"

	LabelKindSandbox   = "podsandbox"
	LabelKindContainer = "container"

	// annotationPrefix marks annotations, for which Docker has no field.
	annotationPrefix = "annotation."
)

// criadapter's own labels. Clients do not see them.
const (
	// LabelRecord holds a record in JSON.
	LabelRecord = "io.criadapter.record"
	// LabelRootDirectory is the root directory of the criadapter that owns a sandbox or container.
	LabelRootDirectory = "io.criadapter.root-directory"
)

// record says which labels and annotations the client gave. Docker merges an image's labels into its containers'
// labels, so a label that the record does not name came from the image.
type record struct {
	// Name is the container's name in the engine. It ties the record to its container: a record in an image's labels
	// cannot have the right name.
	Name string `json:"name"`
	// Labels are the keys of labels that are stored under their own names. Annotations are the keys of annotations that
	// are stored with their prefix.
	Labels      []string `json:"labels,omitempty"`
	Annotations []string `json:"annotations,omitempty"`
	// HiddenLabels are the client's labels whose names mean something else in the engine. Only the record has them.
	HiddenLabels map[string]string `json:"hiddenLabels,omitempty"`
	// PodAttempt is the attempt of the container's pod, which the container's name lacks. It is for pods without a
	// sandbox container.
	PodAttempt uint32 `json:"podAttempt,omitempty"`
}

// identity has the values that identify a container as criadapter's, beside its name.
type identity struct {
	name      string
	kind      string
	sandboxID string
	logPath   string
	// rootDirectory is the mark of its owner, empty for none.
	rootDirectory string
	podAttempt    uint32
}

// encodeLabels makes a container's labels from its identity and from the client's labels and annotations.
func encodeLabels(id identity, labels, annotations map[string]string) (map[string]string, error) {
	out := map[string]string{
		LabelKind:      id.kind,
		LabelSandboxID: id.sandboxID,
		LabelLogPath:   id.logPath,
	}
	if id.kind == LabelKindSandbox {
		out[LabelContainerName] = sandboxPart
	}
	if id.rootDirectory != "" {
		out[LabelRootDirectory] = id.rootDirectory
	}
	r := record{Name: id.name, PodAttempt: id.podAttempt}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if isHidden(key, out) {
			if r.HiddenLabels == nil {
				r.HiddenLabels = map[string]string{}
			}
			r.HiddenLabels[key] = labels[key]
			continue
		}
		r.Labels = append(r.Labels, key)
	}
	// The client's labels are added after the loop, because isHidden must find only criadapter's own labels in out.
	for _, key := range r.Labels {
		out[key] = labels[key]
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		r.Annotations = append(r.Annotations, key)
		out[annotationPrefix+key] = annotations[key]
	}
	encoded, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding the label %s: %w", LabelRecord, err)
	}
	out[LabelRecord] = string(encoded)
	return out, nil
}

// isHidden reports whether a client's label cannot be stored under its own name. Either criadapter's own labels use the
// name, or the name looks like an annotation's.
func isHidden(key string, reserved map[string]string) bool {
	_, taken := reserved[key]
	return taken || key == "" || key == LabelRecord || key == LabelRootDirectory ||
		strings.HasPrefix(key, annotationPrefix)
}

// checkStringMaps refuses labels and annotations of a configuration that JSON would change.
func checkStringMaps(config interface {
	GetLabels() map[string]string
	GetAnnotations() map[string]string
}) error {
	if err := checkStringMap("config.labels", config.GetLabels()); err != nil {
		return err
	}
	return checkStringMap("config.annotations", config.GetAnnotations())
}

// checkStringMap refuses keys and values that are not valid UTF-8.
func checkStringMap(field string, values map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !utf8.ValidString(key) || !utf8.ValidString(values[key]) {
			return invalid(field, "the entry %q is not valid UTF-8", key)
		}
	}
	return nil
}

// decodeLabels returns the labels and annotations that the client gave, nil
// for none.
func decodeLabels(labels map[string]string, name string) (given, annotations map[string]string, err error) {
	r, ok := readRecord(labels)
	if !ok || r.Name != trimName(name) {
		given, annotations = filterLabels(labels)
		return given, annotations, nil
	}
	given, err = collect(labels, r.Labels, "")
	if err != nil {
		return nil, nil, err
	}
	annotations, err = collect(labels, r.Annotations, annotationPrefix)
	if err != nil {
		return nil, nil, err
	}
	for key, value := range r.HiddenLabels {
		if given == nil {
			given = map[string]string{}
		}
		given[key] = value
	}
	return given, annotations, nil
}

// collect returns the labels with these keys, which have the prefix in labels.
func collect(labels map[string]string, keys []string, prefix string) (map[string]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(keys))
	for _, key := range keys {
		value, ok := labels[prefix+key]
		if !ok {
			return nil, fmt.Errorf("the label %s names %q, which the container does not have: %w",
				LabelRecord, prefix+key, errdefs.ErrDataLoss)
		}
		out[key] = value
	}
	return out, nil
}

func readRecord(labels map[string]string) (record, bool) {
	encoded, ok := labels[LabelRecord]
	if !ok {
		return record{}, false
	}
	var r record
	if err := json.Unmarshal([]byte(encoded), &r); err != nil || r.Name == "" {
		return record{}, false
	}
	return r, true
}

// filterLabels is dockershim's rule, for containers of other shims, which have no record: labels that are not the
// shim's own belong to the client.
func filterLabels(labels map[string]string) (given, annotations map[string]string) {
	for key, value := range labels {
		switch {
		case key == LabelKind, key == LabelSandboxID, key == LabelLogPath, key == LabelRecord,
			key == LabelRootDirectory:
		case key == LabelContainerName && labels[LabelKind] == LabelKindSandbox:
		case strings.HasPrefix(key, annotationPrefix):
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[strings.TrimPrefix(key, annotationPrefix)] = value
		default:
			if given == nil {
				given = map[string]string{}
			}
			given[key] = value
		}
	}
	return given, annotations
}
