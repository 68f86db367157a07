package config

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// choose leaves one pod per full name and UID. A name belongs to the place (source and manifest) that has it now; a
// second place gets it when the first one lets go. The caller holds mu.
func (m *Mux) choose(source string, pods []*v1.Pod) (map[types.UID]*v1.Pod, []Refusal) {
	names := map[string]*v1.Pod{}   // holder by full name
	uids := map[types.UID]*v1.Pod{} // and by UID
	for other, theirs := range m.pods {
		for _, pod := range theirs {
			if other != source || named(pods, pod) {
				names[model.FullName(pod)] = pod
			}
			if other != source {
				uids[pod.UID] = pod
			}
		}
	}
	accepted := map[types.UID]*v1.Pod{}
	taken := map[string]bool{}
	var refused []Refusal
	for _, pod := range pods {
		name := model.FullName(pod)
		holder := names[name]
		switch {
		case holder != nil && place(holder) != place(pod):
			refused = append(refused, Refusal{pod, fmt.Errorf("metadata.name: %s is the name of a pod from %s", pod.Name, place(holder))})
		case taken[name]:
			refused = append(refused, Refusal{pod, fmt.Errorf("metadata.name: %s stands twice in %s", pod.Name, place(pod))})
		case uids[pod.UID] != nil:
			refused = append(refused, Refusal{pod, fmt.Errorf("metadata.uid: %s is the UID of %s, too", pod.UID, uids[pod.UID].Name)})
		default:
			accepted[pod.UID], uids[pod.UID], taken[name], names[name] = pod, pod, true, pod
		}
	}
	return accepted, refused
}

// named says whether holder's place still names a pod of its name.
func named(pods []*v1.Pod, holder *v1.Pod) bool {
	for _, pod := range pods {
		if model.FullName(pod) == model.FullName(holder) && place(pod) == place(holder) {
			return true
		}
	}
	return false
}

// place is where a pod comes from, for comparing and for messages. The API server's pods are of one place whatever their
// annotations say: anybody may write those.
func place(pod *v1.Pod) string {
	if !model.IsStatic(pod) {
		return model.SourceAPI
	}
	if manifest := pod.Annotations[model.AnnotationManifest]; manifest != "" {
		return manifest
	}
	return pod.Annotations[model.AnnotationConfigSource]
}
