package podconfig

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/criadapter/criadapter/kubelet/model"
)

// podStorage has the listed and the accepted pods by source. It has no lock.
type podStorage struct {
	listed   map[string][]*v1.Pod             // by the last Set
	accepted map[string]map[types.UID]*v1.Pod // among the listed
	refused  map[string]map[types.UID]string  // reasons for the other listed pods
}

func newPodStorage() podStorage {
	return podStorage{listed: map[string][]*v1.Pod{}, accepted: map[string]map[types.UID]*v1.Pod{},
		refused: map[string]map[types.UID]string{}}
}

// pods returns all accepted pods.
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

// refusedElsewhere returns the other sources with refused pods.
func (s *podStorage) refusedElsewhere(source string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.refused)), func(other string) bool { return other == source })
}

// refuse stores the refusals of a source and returns the new ones.
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

// choose selects one listed pod per full name and UID. A name belongs to the place (source and manifest) that has it
// now. A second place gets it when the first one releases it.
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
			refused = append(refused,
				Refusal{pod, fmt.Errorf("metadata.name: %s is the name of a pod from %s", pod.Name, place(holder))})
		case taken[name]:
			err := fmt.Errorf("metadata.name: %s occurs twice in %s", pod.Name, place(pod))
			refused = append(refused, Refusal{pod, err})
		case uids[pod.UID] != nil:
			refused = append(refused,
				Refusal{pod, fmt.Errorf("metadata.uid: %s is the UID of %s, too", pod.UID, uids[pod.UID].Name)})
		default:
			accepted[pod.UID], uids[pod.UID], taken[name], names[name] = pod, pod, true, pod
		}
	}
	return accepted, refused
}

// holders returns the accepted pods that hold a name or a UID. names has the pods of other sources, and the source's
// own pods whose place still lists their name. uids has only pods of other sources.
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

// listsName reports whether holder's place still lists a pod of its name.
func listsName(pods []*v1.Pod, holder *v1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod *v1.Pod) bool {
		return model.FullName(pod) == model.FullName(holder) && place(pod) == place(holder)
	})
}

// place returns where a pod comes from, for comparisons and messages. All of the API server's pods have one place
// whatever their annotations, which any user may write.
func place(pod *v1.Pod) string {
	if !model.IsStatic(pod) {
		return model.SourceAPI
	}
	return cmp.Or(pod.Annotations[model.AnnotationManifest], pod.Annotations[model.AnnotationConfigSource])
}
