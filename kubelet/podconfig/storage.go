package podconfig

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// podStorage is what the sources list, and what of that is accepted. All is by source. It has no lock.
type podStorage struct {
	listed   map[string][]*v1.Pod             // by the last Set
	accepted map[string]map[types.UID]*v1.Pod // of these
	refused  map[string]map[types.UID]string  // the others, and why
}

func newPodStorage() podStorage {
	return podStorage{listed: map[string][]*v1.Pod{}, accepted: map[string]map[types.UID]*v1.Pod{}, refused: map[string]map[types.UID]string{}}
}

// pods are all accepted pods.
func (s *podStorage) pods() iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, pods := range s.accepted {
			for _, pod := range pods {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

// refusedElsewhere are the other sources with refused pods.
func (s *podStorage) refusedElsewhere(source string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.refused)), func(other string) bool { return other == source })
}

// refuse keeps what is refused of a source, and returns the refusals that are new.
func (s *podStorage) refuse(source string, refusals []Refusal) []Refusal {
	var fresh []Refusal
	reasons := map[types.UID]string{}
	for _, r := range refusals {
		reasons[r.Pod.UID] = r.Err.Error()
		if s.refused[source][r.Pod.UID] != r.Err.Error() {
			fresh = append(fresh, r)
		}
	}
	s.refused[source] = reasons
	if len(reasons) == 0 {
		delete(s.refused, source)
	}
	return fresh
}

// choose leaves one pod per full name and UID of what the source lists. A name belongs to the place (source and
// manifest) that has it now; a second place gets it when the first one lets go.
func (s *podStorage) choose(source string) (map[types.UID]*v1.Pod, []Refusal) {
	pods := s.listed[source]
	names, uids := s.holders(source)
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

// holders are the pods that have a full name or a UID which the source cannot have as well: all of other sources, and
// of its own those that keep their name because their place lists a pod of it.
func (s *podStorage) holders(source string) (names map[string]*v1.Pod, uids map[types.UID]*v1.Pod) {
	names, uids = map[string]*v1.Pod{}, map[types.UID]*v1.Pod{}
	for other, theirs := range s.accepted {
		for _, pod := range theirs {
			if other != source || listsName(s.listed[source], pod) {
				names[model.FullName(pod)] = pod
			}
			if other != source {
				uids[pod.UID] = pod
			}
		}
	}
	return names, uids
}

// listsName says whether holder's place still lists a pod of its name.
func listsName(pods []*v1.Pod, holder *v1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool {
		return model.FullName(pod) == model.FullName(holder) && place(pod) == place(holder)
	})
}

// place is where a pod comes from, for comparing and for messages. The API server's pods are of one place whatever
// their annotations say: anybody may write those.
func place(pod *v1.Pod) string {
	if !model.IsStatic(pod) {
		return model.SourceAPI
	}
	if manifest := pod.Annotations[model.AnnotationManifest]; manifest != "" {
		return manifest
	}
	return pod.Annotations[model.AnnotationConfigSource]
}
