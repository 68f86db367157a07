package model

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// PodField returns the value of a field that the downward API has for volumes and environments: metadata.name,
// .namespace, .uid, .labels and .annotations. Labels and annotations may be whole, or one key as in
// metadata.labels['app']. A missing key has an empty value. Another field is an errdefs.ErrInvalidArgument.
func PodField(pod *v1.Pod, path string) (string, error) {
	if field, key, ok := subscript(path); ok {
		return podKey(pod, field, key)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return quotedLines(pod.Labels), nil
	case "metadata.annotations":
		return quotedLines(pod.Annotations), nil
	default:
		return "", fmt.Errorf("fieldPath %q is not a field that a container can get: %w", path,
			errdefs.ErrInvalidArgument)
	}
}

func podKey(pod *v1.Pod, field, key string) (string, error) {
	var values map[string]string
	var problems []string
	switch field {
	case "metadata.labels":
		values, problems = pod.Labels, validation.IsQualifiedName(key)
	case "metadata.annotations":
		values, problems = pod.Annotations, validation.IsQualifiedName(strings.ToLower(key))
	default:
		return "", fmt.Errorf("fieldPath: %s has no keys: %w", field, errdefs.ErrInvalidArgument)
	}
	if len(problems) > 0 {
		return "", fmt.Errorf("fieldPath: %s['%s']: %s: %w", field, key, strings.Join(problems, "; "),
			errdefs.ErrInvalidArgument)
	}
	return values[key], nil
}

// subscript splits field['key'].
func subscript(path string) (field, key string, ok bool) {
	inner, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	field, key, ok = strings.Cut(inner, "['")
	return field, key, ok && field != ""
}

// quotedLines formats a map like the downward API: one key="value" a line, sorted.
func quotedLines(values map[string]string) string {
	lines := make([]string, 0, len(values))
	for key, value := range values {
		lines = append(lines, key+"="+strconv.Quote(value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
