package state

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/criadapter/criadapter/internal/testutil"
)

func entries(t *testing.T) *Snapshot {
	t.Helper()
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	m := New(Options{})
	for id, created := range map[string]int64{"aa11": 3, "aa22": 1, "bb33": 2, "cc44": 2} {
		m.PutPod(Pod{ID: id, Meta: PodMeta{CreatedAt: at(created)}})
	}
	for id, created := range map[string]int64{"d1": 1, "d2": 3, "d3": 2} {
		m.PutContainer(Container{ID: id, SandboxID: "aa11", Meta: ContainerMeta{CreatedAt: at(created)}})
	}
	m.PutContainer(Container{ID: "e1", SandboxID: "another", Meta: ContainerMeta{CreatedAt: at(9)}})
	return m.Snapshot()
}

func TestFindByIDOrPrefix(t *testing.T) {
	snapshot := entries(t)
	tests := map[string]struct {
		id   string
		want string
		err  func(error) bool
	}{
		"full id":                     {id: "aa11", want: "aa11"},
		"prefix":                      {id: "aa1", want: "aa11"},
		"prefix of one letter":        {id: "b", want: "bb33"},
		"prefix of two":               {id: "aa", err: errdefs.IsInvalidArgument},
		"unknown":                     {id: "zz", err: errdefs.IsNotFound},
		"longer than the id":          {id: "aa111", err: errdefs.IsNotFound},
		"empty":                       {id: "", err: errdefs.IsInvalidArgument},
		"a container is not a pod":    {id: "d1", err: errdefs.IsNotFound},
		"a pattern is not understood": {id: "aa*", err: errdefs.IsNotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod, err := snapshot.Pod(tt.id)
			if tt.err != nil {
				testutil.Assert(t, tt.err(err), "Pod(%q) returned %v, %v", tt.id, pod, err)
				return
			}
			testutil.Assert(t, err == nil && pod.ID == tt.want,
				"Pod(%q) returned %v, %v, want %s", tt.id, pod, err, tt.want)
		})
	}
	c, err := snapshot.Container("e")
	testutil.Assert(t, err == nil && c.ID == "e1", "Container returned %v, %v", c, err)
	_, err = snapshot.Container("d")
	testutil.Assert(t, errdefs.IsInvalidArgument(err), "an ambiguous container returned %v", err)
}

// A full id that is the beginning of another one is not ambiguous.
func TestPodImages(t *testing.T) {
	m := New(Options{})
	for id, image := range map[string]string{"a": "pause", "b": "pause", "c": "older", "without a container": ""} {
		m.PutPod(Pod{ID: id, Meta: PodMeta{ImageID: image}})
	}
	got := slices.Sorted(maps.Keys(m.Snapshot().PodImages()))
	testutil.Assert(t, slices.Equal(got, []string{"older", "pause"}), "got %q", got)
}

func TestFullIDWinsOverPrefix(t *testing.T) {
	m := New(Options{})
	m.PutPod(Pod{ID: "ab"})
	m.PutPod(Pod{ID: "abc"})
	pod, err := m.Snapshot().Pod("ab")
	testutil.Assert(t, err == nil && pod.ID == "ab", "Pod returned %v, %v", pod, err)
}

func TestListsHaveTheNewestFirst(t *testing.T) {
	snapshot := entries(t)
	ids := func(containers []*Container) (ids []string) {
		for _, c := range containers {
			ids = append(ids, c.ID)
		}
		return ids
	}
	var pods []string
	for _, pod := range snapshot.Pods() {
		pods = append(pods, pod.ID)
	}
	// Entries of the same age are ordered by id, so the order is the same each time.
	want := []string{"aa11", "bb33", "cc44", "aa22"}
	testutil.Assert(t, slices.Equal(pods, want), "Pods are %v, want %v", pods, want)
	if got, want := ids(snapshot.Containers()), []string{"e1", "d2", "d3", "d1"}; !slices.Equal(got, want) {
		t.Errorf("Containers are %v, want %v", got, want)
	}
	if got, want := ids(snapshot.ContainersOf("aa11")), []string{"d2", "d3", "d1"}; !slices.Equal(got, want) {
		t.Errorf("ContainersOf are %v, want %v", got, want)
	}
	got := snapshot.ContainersOf("bb33")
	testutil.Assert(t, len(got) == 0, "a pod without containers has %v", got)
}
