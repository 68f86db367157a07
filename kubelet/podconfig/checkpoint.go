package podconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/kubelet/jsonfile"
)

// Checkpoint is the file with the accepted pods, both static pods and pods of the API server. It is a PodList in JSON,
// which people can read, too. It has statuses, because an ended pod must not start again after a restart without the
// server. It never has secrets or config maps. Only the file's owner may read it, because it has values of the pods'
// environments.
type Checkpoint struct {
	// Path is the path of the file. A missing directory is created.
	Path string
}

// load reads the pods; a missing file has no pods. An unreadable file is renamed to *.corrupt, so the next save does
// not overwrite it.
func (c *Checkpoint) load() ([]*v1.Pod, error) {
	var list v1.PodList
	if _, err := jsonfile.ReadOrMove(c.Path, &list); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	pods := make([]*v1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// Save replaces the file atomically, unless its content is the same.
func (c *Checkpoint) Save(pods []*v1.Pod) error {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	slices.SortFunc(list.Items, func(a, b v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o750); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return jsonfile.Save(c.Path, "checkpoint", list)
}
